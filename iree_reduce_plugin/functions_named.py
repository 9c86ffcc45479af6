"""NumPy's functions of one argument that `map=` and `finalize=` know by name, over the values of `expressions`.

Those that have no integer result take integers and bools as f64 (NumPy those of 8 and 16 bits as shorter floats).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .errors import InputError, InputTypeError, check
from .expressions import (
    BOOL,
    Value,
    ceil,
    cos,
    exp,
    exp2,
    expm1,
    floor,
    isnan,
    log,
    log1p,
    log2,
    log10,
    rint,
    sin,
    sqrt,
    tanh,
    trunc,
    where,
)

Unary = Callable[[Value], Value]


def _of_floats(function: Unary) -> Unary:
    def applied(x: Value) -> Value:
        return function(x if x.element.is_float else x.cast("f64"))

    return applied


def _rounded(function: Unary) -> Unary:
    """Integers are round already."""

    def applied(x: Value) -> Value:
        return function(x) if x.element.is_float else x

    return applied


def _isinf(x: Value) -> Value:
    return abs(x) == np.inf if x.element.is_float else x != x


def _isfinite(x: Value) -> Value:
    return abs(x) < np.inf if x.element.is_float else x == x


def _sign(x: Value) -> Value:
    return where(x > 0, 1, where(x == 0, 0, x if x.element.is_unsigned else where(x < 0, -1, x)))


def _of_numbers(function: Unary) -> Unary:
    def applied(x: Value) -> Value:
        check(not x.element.is_bool, "bools have none in NumPy, or one that gives another type: cast the array first", InputTypeError)
        return function(x)

    return applied


def _reciprocal(x: Value) -> Value:
    check(
        x.element.is_float,
        f"reciprocal of {x.element.name}: not supported; cast the array first",
        InputError,
    )
    return 1 / x


def _logical_not(x: Value) -> Value:
    return ~x.cast(BOOL)


NAMED: dict[str, Unary] = {
    "abs": abs,
    "absolute": abs,
    "ceil": _rounded(ceil),
    "bitwise_not": lambda x: ~x,
    "conj": _of_numbers(lambda x: x),
    "conjugate": _of_numbers(lambda x: x),
    "cos": _of_floats(cos),
    "deg2rad": _of_floats(lambda x: x * (np.pi / 180)),
    "degrees": _of_floats(lambda x: x * (180 / np.pi)),
    "exp": _of_floats(exp),
    "exp2": _of_floats(exp2),
    "expm1": _of_floats(expm1),
    "fabs": _of_floats(abs),
    "floor": _rounded(floor),
    "invert": lambda x: ~x,
    "isfinite": _isfinite,
    "isinf": _isinf,
    "isnan": isnan,
    "log": _of_floats(log),
    "log10": _of_floats(log10),
    "log1p": _of_floats(log1p),
    "log2": _of_floats(log2),
    "logical_not": _logical_not,
    "negative": lambda x: -x,
    "positive": _of_numbers(lambda x: x),
    "rad2deg": _of_floats(lambda x: x * (180 / np.pi)),
    "radians": _of_floats(lambda x: x * (np.pi / 180)),
    "reciprocal": _of_numbers(_reciprocal),
    "rint": _of_floats(rint),
    "sign": _of_numbers(_sign),
    "sin": _of_floats(sin),
    "sqrt": _of_floats(sqrt),
    "square": _of_numbers(lambda x: x * x),
    "tanh": _of_floats(tanh),
    "trunc": _rounded(trunc),
}
