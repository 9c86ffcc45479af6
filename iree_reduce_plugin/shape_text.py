"""Shapes as they are given: tuples, texts such as `4x4096xf32`, arrays."""

from __future__ import annotations

import operator
import re
from typing import Any

import numpy as np

from .element_types import NAMES, ElementType
from .errors import InputError, check


def parse_shape(text: str) -> tuple[tuple[int, ...], ElementType]:
    """`4x4096xf32` -> `((4, 4096), ElementType("f32"))`. The names are MLIR's only: NumPy's `i8` is 8 bytes, and here it is 8 bits."""
    match = re.fullmatch(r"((?:[0-9]+x)*)([a-zA-Z]\w*)", text.strip())
    check(match is not None, f"shape {text!r}: write extents and a type joined by x, e.g. 4x4096xf32", InputError)
    extents, name = match.groups()  # type: ignore[union-attr]
    element = ElementType.named(name)
    if element is None:
        raise InputError(f"shape {text!r}: type {name!r} is not supported: use one of {', '.join(NAMES)}")
    return tuple(int(n) for n in extents.split("x")[:-1]), element


def shape_and_type(shape: Any, dtype: object) -> tuple[tuple[int, ...], ElementType]:
    """Of a tuple of integers, a text, or an array, whose values are not looked at. InputError for anything else.

    >>> shape_and_type((4, 4096), None)[1].name, shape_and_type("4x4096xf16", None)[1].name
    ('f32', 'f16')
    """
    name: object
    if isinstance(shape, str):
        extents, name = parse_shape(shape)
    elif hasattr(shape, "shape") and hasattr(shape, "dtype"):
        extents, name = tuple(shape.shape), shape.dtype
    else:
        try:
            if isinstance(shape, (bytes, bytearray, set, frozenset, dict)) or any(isinstance(n, (bool, np.bool_)) for n in shape):
                raise TypeError
            extents, name = tuple(operator.index(n) for n in shape), "f32" if dtype is None else dtype
        except TypeError:
            raise InputError(f"shape {shape!r}: give a tuple of integers, text such as 4x4096xf32, or an array") from None
    element = ElementType.of(name)
    check(
        dtype is None or ElementType.of(dtype) == element,
        f"dtype {dtype!r} contradicts the {element.name} of the shape or array: leave it out, or use out_dtype for the result's type",
        InputError,
    )
    return extents, element
