"""The reductions, by name: those of one accumulator are here, the others in `ops_of_several`."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .element_types import ElementType
from .errors import InputError, InputTypeError, check
from .expressions import Value, Values, fma, isnan, log, maximum, minimum, ordered, sqrt, where
from .op import I64, About, Op, Types, add, as_float, widened
from .ops_masked import OPS_MASKED
from .ops_of_several import OPS_OF_SEVERAL
from .ops_together import together

BOOL = ElementType("bool")

# Combines, and the x with `x op y == y` for every y, bit for bit.


def _nothing(types: Types) -> tuple[Any, ...]:
    return (-0.0 if types[0].is_float else 0,)  # +0.0 would make +0.0 of a sum of -0.0


def _multiply(a: Values, b: Values) -> Values:
    return (a[0] * b[0],)


def _factor_one(types: Types) -> tuple[Any, ...]:
    return (1,)


def _maximum(a: Values, b: Values) -> Values:
    return (maximum(a[0], b[0]),)


def _minimum(a: Values, b: Values) -> Values:
    return (minimum(a[0], b[0]),)


def _lowest(types: Types) -> tuple[Any, ...]:
    return (-np.inf if types[0].is_float else types[0].limits[0],)


def _highest(types: Types) -> tuple[Any, ...]:
    return (np.inf if types[0].is_float else types[0].limits[1],)


def _and(a: Values, b: Values) -> Values:
    return (a[0] & b[0],)


def _or(a: Values, b: Values) -> Values:
    return (a[0] | b[0],)


def _xor(a: Values, b: Values) -> Values:
    return (a[0] ^ b[0],)


def _every_bit(types: Types) -> tuple[Any, ...]:
    return (types[0].limits[1] if types[0].is_unsigned else -1,)


def _no_bit(types: Types) -> tuple[Any, ...]:
    return (0,)


# Maxima that ignore NaN. The targets' `maxnum` gives either zero of +0 and -0, x86's the second operand. Integers have one order: a
# float's bits, those of negative ones inverted but for the sign, are ordered as the floats are, -0 below +0. NaN is the lowest of all
# (for minima the highest), which is the identity and what is left of nothing but NaN.


def _keys(element: ElementType) -> Types:
    return (ElementType(f"i{element.bits}"),) if element.is_float else (element,)


def _key_of_highest(x: Value) -> Values:
    if not x.element.is_float:
        return (x,)
    bits = x.bitcast(f"i{x.element.bits}")
    return (where(isnan(x), bits.element.limits[0], ordered(bits)),)


def _key_of_lowest(x: Value) -> Values:
    if not x.element.is_float:
        return (x,)
    bits = x.bitcast(f"i{x.element.bits}")
    return (where(isnan(x), bits.element.limits[1], ordered(bits)),)


def _of_key(keys: Values, about: About) -> Value:
    """The lowest key and the highest are those of no float but NaN: they become one."""
    return ordered(keys[0]).bitcast(about.element) if about.element.is_float else keys[0]


# What is not the accumulator itself.


def _is_true(x: Value) -> Values:
    return ((x != 0).cast("i32"),)


def _i32(element: ElementType) -> Types:
    return (ElementType("i32"),)


def _truth(accumulators: Values, about: About) -> Value:
    return accumulators[0].cast(BOOL)


def _of_i64(element: ElementType) -> Types:
    return (I64,)


def _counted(x: Value) -> Values:
    return ((x != 0).cast(I64),)


def _square(x: Value) -> Values:
    return (x * x,)


def _add_square(accumulators: Values, x: Value) -> Values:
    """One rounding, on every device: left to themselves, some would fuse the product with the sum, and others not."""
    return (fma(x, x, accumulators[0]),)


def _magnitude(x: Value) -> Values:
    return (abs(x),)


def _mean(accumulators: Values, about: About) -> Value:
    return accumulators[0] / about.count


def _root(accumulators: Values, about: About) -> Value:
    return sqrt(accumulators[0])


def _logarithm(accumulators: Values, about: About) -> Value:
    return log(accumulators[0])


def _zero(element: ElementType) -> int:
    return 0


def _one(element: ElementType) -> int:
    return 1


def _ones(element: ElementType) -> int:
    return element.limits[1] if element.is_unsigned else -1


def _to_bool(element: ElementType) -> ElementType:
    return BOOL


def _to_i64(element: ElementType) -> ElementType:
    return I64


# `sum` and those that finish one: NumPy's joins +0 to every sum.
_SUM: dict[str, Any] = {"combine": add, "identity": _nothing, "default_initial": _zero}
_KEYS: dict[str, Any] = {"accumulators": _keys, "finish": _of_key, "empty": "error"}
_TRUTH: dict[str, Any] = {"prepare": _is_true, "accumulators": _i32, "finish": _truth, "result": _to_bool}
_BARE: dict[str, Any] = {"takes_dtype": False, "takes_initial": False}
_OPS = (
    Op("sum", "numpy.sum", loop_type=widened, **_SUM),
    Op("prod", "numpy.prod", _multiply, _factor_one, loop_type=widened, default_initial=_one),
    # NaN propagates, and -0 is below +0, as MLIR's maximumf and minimumf have it; NumPy gives either zero.
    Op("max", "numpy.maximum.reduce", _maximum, _lowest, empty="error"),
    Op("min", "numpy.minimum.reduce", _minimum, _highest, empty="error"),
    Op("fmax", "numpy.fmax.reduce", _maximum, _lowest, _key_of_highest, join=_key_of_highest, **_KEYS),
    Op("fmin", "numpy.fmin.reduce", _minimum, _highest, _key_of_lowest, join=_key_of_lowest, **_KEYS),
    Op("any", "numpy.any", _or, _no_bit, **_TRUTH, **_BARE),
    Op("all", "numpy.all", _and, _every_bit, **_TRUTH, **_BARE),
    Op("bitwise_and", "numpy.bitwise_and.reduce", _and, _every_bit, default_initial=_ones, takes_floats=False),
    Op("bitwise_or", "numpy.bitwise_or.reduce", _or, _no_bit, default_initial=_zero, takes_floats=False),
    Op("bitwise_xor", "numpy.bitwise_xor.reduce", _xor, _no_bit, default_initial=_zero, takes_floats=False),
    Op("count_nonzero", "numpy.count_nonzero", add, _nothing, _counted, accumulators=_of_i64, result=_to_i64, takes_where=False, **_BARE),
    Op("mean", "numpy.mean", finish=_mean, loop_type=as_float, takes_integers=False, takes_initial=False, **_SUM),
    Op("sum_of_squares", "numpy.sum of x * x", prepare=_square, accumulate=_add_square, loop_type=widened, **_SUM),
    Op("l1", "numpy.linalg.norm of ord 1", prepare=_magnitude, loop_type=as_float, **_SUM),
    Op("l2", "numpy.linalg.norm", prepare=_square, accumulate=_add_square, finish=_root, loop_type=as_float, takes_integers=False, **_SUM),
    Op("log_sum", "numpy.log of numpy.sum", finish=_logarithm, loop_type=as_float, takes_integers=False, **_SUM),
)
OPS = {op.name: op for op in (*_OPS, *OPS_OF_SEVERAL)}
_ALL = {**OPS, **{op.name: op for op in OPS_MASKED.values()}}


def find_op(name: str | tuple[str, ...], masked: bool = False) -> Op:
    """The op of that name; of several, as a tuple or joined by commas, the one that gives all their results in one pass.

    masked: in the form that it takes where a mask leaves out elements.
    """
    names = tuple(name.split(",")) if isinstance(name, str) else name if isinstance(name, tuple) else (name,)
    for one in names or (name,):
        if not isinstance(one, str) or one not in OPS:
            raise InputError(f"op {one!r} is not known: use one of {', '.join(OPS)}, or several as a tuple")
        check(OPS[one].takes_where or not masked, f"where: {OPS[one].numpy} has none; leave it out", InputTypeError)
    return op_named(",".join(OPS_MASKED[one].name if masked and one in OPS_MASKED else one for one in names))


def op_named(name: str) -> Op:
    """The op whose `name` it is."""
    names = tuple(name.split(","))
    return _ALL[name] if len(names) == 1 else _together(names)


@functools.cache
def _together(names: tuple[str, ...]) -> Op:
    return together([_ALL[name] for name in names])
