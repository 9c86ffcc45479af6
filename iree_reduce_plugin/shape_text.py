"""Shapes as text, e.g. `4x4096xf32`."""

from __future__ import annotations

import re

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
