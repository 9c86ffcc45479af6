"""NumPy's rules for axes, types and `initial`, and the errors where a call breaks one."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from .element_types import ElementType
from .errors import InputError, InputTypeError, check
from .op import Op, kept

Number = int | float


def loop_type_of(op: Op, element: ElementType, given: object) -> ElementType:
    """The type that elements are cast to first: `given` as NumPy's `dtype=`, or the op's own choice."""
    remedy = "cast the array first, e.g. x.astype({!r})"
    check(
        op.takes_floats or not element.is_float,
        f"op {op.asked}: {element.name} has no bits to combine in NumPy; use an integer or bool array",
        InputTypeError,
    )
    check(
        op.takes_bools or element.name != "bool",
        f"op {op.asked}: bool has no difference in NumPy; cast the array first, e.g. x.astype('i1')",
        InputTypeError,
    )
    if given is None:
        return op.loop_type(element)
    check(op.takes_dtype, f"dtype {given!r}: {op.numpy} has none; leave it out", InputTypeError)
    chosen = ElementType.of(given)
    check(
        op.takes_integers or chosen.is_float,
        f"dtype {chosen.name}: {op.asked} is not an integer; use a float, e.g. f64, and round the result",
        InputError,
    )
    check(
        not (element.is_float and not chosen.is_float),
        f"dtype {chosen.name}: a {element.name} array is not accumulated in integers; cast the array first",
        InputError,
    )
    check(
        not (op.loop_type is not kept and chosen.is_bool),
        f"dtype bool: {op.asked} of truth values is not supported; use op any or all, or an integer type, e.g. i64",
        InputError,
    )
    coarse = chosen.is_float and (chosen.bits < 16 or chosen.name == "bf16")
    check(
        not coarse or element == chosen,
        f"dtype {chosen.name}: casting each element of a {element.name} array to {chosen.name} first is not supported yet (IREE drops the "
        f'rounding); {remedy.format(chosen.numpy.name) if coarse else ""}, or use dtype="f4"',
        InputError,
    )
    return chosen


def normalise_axes(axis: int | tuple[int, ...] | None, rank: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(rank))
    if rank == 0 and type(axis) is int and axis in (0, -1):
        return ()  # as NumPy takes it: there is one element, and nothing to reduce
    given = axis if isinstance(axis, tuple) else (axis,)
    if any(isinstance(a, bool) for a in given):
        raise TypeError("an integer is required for the axis")  # as NumPy
    axes = tuple(_axis_index(operator.index(a), rank) for a in given)
    if len(set(axes)) != len(axes):
        raise ValueError("duplicate value in 'axis'")
    return tuple(sorted(axes))


def _axis_index(axis: int, rank: int) -> int:
    """As `numpy.lib.array_utils.normalize_axis_index`, which NumPy 1.26 has in a private place only."""
    if not -rank <= axis < rank:
        raise np.exceptions.AxisError(axis, rank)
    return axis % rank


def kept_shape_of(shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool = False) -> tuple[int, ...]:
    return tuple(1 if a in axes else n for a, n in enumerate(shape) if keepdims or a not in axes)


def mask_of(where: Any, shape: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.bool_]] | None:
    """NumPy's `where=` as an array of that shape; None where it leaves nothing out. TypeError and ValueError as NumPy's.

    >>> mask_of([True, False], (2, 2)).tolist(), mask_of(True, (2, 2))
    ([[True, False], [True, False]], None)
    """
    if where is None or where is True:
        return None
    mask = np.asarray(where) if isinstance(where, (np.ndarray, np.generic)) else np.asarray(where, bool)
    if mask.dtype != bool:
        raise TypeError(
            f"where: Cannot cast array data from {mask.dtype!r} to dtype('bool') according to the rule 'safe'; compare it, e.g. x > 0"
        )
    try:
        return np.broadcast_to(mask, shape)
    except ValueError:
        raise InputError(f"where: a mask of shape {mask.shape} can't be broadcast to the array's {shape}") from None


def put(results: list[Any], out: Any) -> Any:
    """Copies the results into NumPy's `out=`: an array, or a tuple of as many as there are results; gives it back.

    TypeError and ValueError as NumPy's.

    >>> put([np.float32([1, 2])], np.zeros(2)).tolist()
    [1.0, 2.0]
    """
    single = not isinstance(out, tuple)
    targets = (out,) if single else out
    check(len(targets) == len(results), f"out: {len(targets)} arrays for {len(results)} results; give a tuple of as many", InputError)
    for target, result in zip(targets, results, strict=True):
        if not isinstance(target, np.ndarray):
            raise TypeError(f"out: a {type(target).__name__} is not an array: give a NumPy array")
        check(
            target.shape == result.shape,
            f"out: an array of shape {target.shape} for a result of {result.shape}",
            InputError,
        )
        casts = np.can_cast(result.dtype, target.dtype, "same_kind")
        check(casts, f"out: a result of {result.dtype} is not cast to {target.dtype}; give an array of that type", InputTypeError)
        check(target.flags.writeable, "out: the array is read-only; give one that can be written", InputError)
    for target, result in zip(targets, results, strict=True):
        np.copyto(target, result, casting="same_kind")
    return targets[0] if single else out


def initial_of(initial: Number, loop_type: ElementType) -> Number:
    """`initial` as a Python number of the loop's type, so that equal problems have equal keys."""
    try:
        value = float(initial) if loop_type.is_float else int(initial)
    except (TypeError, ValueError, OverflowError) as e:
        raise InputError(f"initial {initial!r} is not a number that {loop_type.name} can hold") from e
    check(
        loop_type.is_float or value == initial,
        f"initial {initial!r} is not an integer, and the accumulator is {loop_type.name}",
        InputError,
    )
    if not loop_type.is_float:
        low, high = loop_type.limits
        check(low <= value <= high, f"initial {value} is outside {loop_type.name}: {low} to {high}", InputError)
    return value
