"""Expressions on NumPy arrays: what the reference computes with. Every step rounds as the devices' does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .element_types import ElementType
from .exact_fma import exact_fma
from .expressions import LIBRARY, Value

Array = np.ndarray[Any, np.dtype[Any]]


def array_value(array: Any, element: ElementType) -> Value:
    """The array as a value.

    >>> (array_value(np.float32([1, 2]), ElementType("f32")) + 0.5).raw.tolist()
    [1.5, 2.5]
    """
    return Value(np.asarray(array, element.numpy), element, NUMPY)


class NumpyBackend:
    """Calls are made inside `numpy.errstate(all="ignore")`: overflow and NaN are results here, as on every device."""

    def apply(self, name: str, operands: list[Array], element: ElementType) -> Array:
        result: Array = _FUNCTIONS[name](*operands)
        return result

    def constant(self, value: Any, element: ElementType, like: Array) -> Array:
        return np.asarray(value).astype(element.numpy)

    def select(self, condition: Array, a: Array, b: Array, element: ElementType) -> Array:
        return np.where(condition, a, b)

    def cast(self, value: Array, source: ElementType, target: ElementType) -> Array:
        return value != 0 if target.is_bool else value.astype(target.numpy)

    def bitcast(self, value: Array, source: ElementType, target: ElementType) -> Array:
        return value.view(target.numpy)


NUMPY = NumpyBackend()


def _minimum(a: Array, b: Array) -> Array:
    return _signed(np.minimum(a, b), a, b, np.logical_or)


def _maximum(a: Array, b: Array) -> Array:
    return _signed(np.maximum(a, b), a, b, np.logical_and)


def _signed(chosen: Array, a: Array, b: Array, negative: Callable[[Any, Any], Any]) -> Array:
    """NumPy gives either of +0 and -0, the devices the larger one, which is +0, or the smaller one."""
    if chosen.dtype.kind in "biu":
        return chosen
    zero = np.copysign(chosen, np.where(negative(np.signbit(a), np.signbit(b)), -1, 1).astype(chosen.dtype))
    return np.where(chosen == 0, zero, chosen)


def _fma(a: Array, b: Array, c: Array) -> Array:
    return exact_fma(a, b, c) if np.asarray(c).dtype.kind == "f" else a * b + c


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.true_divide,
    "neg": np.negative,
    "abs": np.abs,
    "sqrt": np.sqrt,
    **{name: getattr(np, name) for name in (*LIBRARY, "floor", "ceil", "trunc", "rint")},
    "fma": _fma,
    "minimum": _minimum,
    "maximum": _maximum,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shr": np.right_shift,
}
