"""What is computed: shape, type, op and axes, brought to the canonical loops that a tuning speaks of.

`4x1x4096` reduced over its last axis is the loops `(rows=4, K=4096)`; `1x4096` and `4096` are `(K=4096)`. See `loops.py`.
"""

from __future__ import annotations

import functools
import math
import operator
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from .element_types import NAMES, ElementType
from .errors import InputError, check
from .loops import NAMES as LOOP_NAMES
from .loops import Dimension, K, extent_of, in_memory
from .ops import Op, find_op

Number = int | float


@dataclass(frozen=True)
class Problem:
    """One reduction. Build it with `Problem.of`, which follows NumPy's rules for axes, types and `initial`.

    input: element type of the array
    loop_type: the type each element is cast to first (NumPy's `dtype=`); accumulator: the type sums are kept in
    result: the type of the output, into which the accumulator is rounded once
    initial: joins the result once, last, in the accumulator's type; None: nothing joins
    """

    op: Op
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    keepdims: bool
    input: ElementType
    loop_type: ElementType
    accumulator: ElementType
    result: ElementType
    initial: Number | None

    @staticmethod
    def of(
        shape: tuple[int, ...],
        dtype: object = "f32",
        op: str = "sum",
        axis: int | tuple[int, ...] | None = -1,
        keepdims: bool = False,
        out_dtype: object = None,
        initial: Number | None = None,
    ) -> Problem:
        """The problem of `numpy.<op>(x, axis, out_dtype, keepdims=, initial=)` for an x of this shape and type.

        Raises InputError for an op or type that is not known, AxisError and ValueError as NumPy does.

        >>> p = Problem.of((4, 4096), "f16")
        >>> p.rows, p.columns, p.accumulator.name, p.result.name
        (4, 4096, 'f32', 'f16')
        """
        the_op, element = find_op(op), ElementType.of(dtype)
        check(len(shape) > 0, "a 0-d array has no axis to reduce: give it a shape of at least one dimension", InputError)
        check(all(type(n) is int and n >= 0 for n in shape), f"shape {shape}: every extent is an integer of at least 0", InputError)
        check(math.prod(shape) * element.bytes < 2**63, f"shape {shape}: it has more bytes than can be counted in 64 bits", InputError)
        if not isinstance(keepdims, (bool, int, np.bool_)):
            raise TypeError(f"keepdims {keepdims!r} is not a boolean: use True or False")
        axes = _normalise_axes(axis, len(shape))
        if out_dtype is not None:
            loop_type = ElementType.of(out_dtype)
            check(
                not (element.is_float and not loop_type.is_float),
                f"dtype {loop_type.name}: a {element.name} array is not accumulated in integers; cast the array first",
                InputError,
            )
            check(
                loop_type.name != "bf16" or element.name == "bf16",
                f"dtype bf16: casting each element of a {element.name} array to bf16 first is not supported yet (IREE drops the rounding); "
                'cast the array first, or use dtype="f4"',
                InputError,
            )
        elif the_op.widens and not element.is_float:
            loop_type = ElementType("i64")  # as NumPy: sum and prod of small integers are 64-bit
        else:
            loop_type = element
        columns = math.prod(shape[a] for a in axes)
        if columns == 0 and initial is None and the_op.default_initial is None and 0 not in _kept(shape, axes):
            raise ValueError(f"zero-size array to reduction operation {the_op.ufunc.__name__} which has no identity")
        start = the_op.default_initial if initial is None else _initial(initial, loop_type)
        return Problem(the_op, tuple(shape), axes, bool(keepdims), element, loop_type, loop_type.accumulator, loop_type, start)

    @functools.cached_property
    def kept_shape(self) -> tuple[int, ...]:
        """The result's shape."""
        return _kept(self.shape, self.axes, self.keepdims)

    @functools.cached_property
    def rows(self) -> int:
        """Extent of the merged parallel loops."""
        return math.prod(n for a, n in enumerate(self.shape) if a not in self.axes)

    @functools.cached_property
    def columns(self) -> int:
        """Extent of the reduced loop, K."""
        return math.prod(self.shape[a] for a in self.axes)

    @functools.cached_property
    def memory(self) -> tuple[Dimension, ...]:
        """The array's dimensions, as loops: what the kernel takes."""
        return in_memory(self.shape, self.axes)

    @property
    def memory_shape(self) -> tuple[int, ...]:
        return tuple(d.extent for d in self.memory)

    @functools.cached_property
    def result_memory(self) -> tuple[Dimension, ...]:
        """The dimensions of the kernel's result, which lie as the array's kept ones do."""
        return tuple(d for d in self.memory if d.loop != K)

    @functools.cached_property
    def named_loops(self) -> dict[str, int]:
        """The canonical loops by name, the reduced one last, without those of extent 1: what a tuning's lists have entries for."""
        extents = {loop: extent_of(loop, self.memory) for loop in LOOP_NAMES}
        return {loop: extent for loop, extent in extents.items() if extent != 1}

    @property
    def loops(self) -> tuple[int, ...]:
        """Extents of the canonical loops: `(rows, K)`, `(K,)`, `(rows, inner, K)`, ...; `()` for one element."""
        return tuple(self.named_loops.values())

    @property
    def is_empty(self) -> bool:
        """Nothing to run: no result, or every result is the identity."""
        return self.rows == 0 or self.columns == 0

    @property
    def start(self) -> Any:
        """What the accumulators start from: the identity, or +0.0 for a sum that +0.0 joins.

        Sums that start from +0.0 equal sums from -0.0 joined by +0.0 at the end, bit for bit: the two differ in the sign of
        a zero total only, and a chain from +0.0 never reaches -0.0. So the default `initial` costs nothing.
        """
        return self.accumulator.numpy.type(0) if self._absorbed else self.op.identity(self.accumulator)

    @property
    def epilogue_initial(self) -> Number | None:
        """`initial` where it has to be joined after the tree: neither the identity nor absorbed by `start`; else None."""
        if self.initial is None or self._absorbed:
            return None
        identity = self.op.identity(self.accumulator)
        with np.errstate(over="ignore"):  # too large a number is infinite, as in NumPy
            start = self.accumulator.numpy.type(self.initial)
        return None if start.tobytes() == identity.tobytes() else self.initial

    @property
    def is_settled(self) -> bool:
        """Whether `initial` alone decides every result, which a compiler may notice: 0 in an integer product, the highest in a maximum."""
        if self.initial is None or self.accumulator.is_float:
            return False
        limits = np.iinfo(self.accumulator.numpy)
        return self.initial == {"prod": 0, "max": limits.max, "min": limits.min}.get(self.op.name)

    @property
    def has_epilogue(self) -> bool:
        """Whether each result passes through one more elementwise step: joining `initial`, rounding to the result's type."""
        return self.epilogue_initial is not None or self.accumulator != self.result

    @property
    def _absorbed(self) -> bool:
        plus_zero = self.initial == 0 and math.copysign(1.0, self.initial) > 0
        return self.op.name == "sum" and self.accumulator.is_float and plus_zero

    def __str__(self) -> str:
        shape = "x".join(map(str, self.shape))
        return f"{self.op.name} of {shape}x{self.input.name} over axes {self.axes}"


def parse_shape(text: str) -> tuple[tuple[int, ...], str]:
    """`4x4096xf32` -> `((4, 4096), "f32")`."""
    match = re.fullmatch(r"((?:[0-9]+x)+)([a-z]+[0-9]+)", text.strip())
    check(match is not None, f"shape {text!r}: write extents and a type joined by x, e.g. 4x4096xf32", InputError)
    extents, element = match.groups()  # type: ignore[union-attr]
    # Only MLIR's names: NumPy's `i8` is 8 bytes, and here it would be 8 bits.
    yet = " yet" if element[0] in "iu" else ""
    check(element in NAMES, f"shape {text!r}: type {element!r} is not supported{yet}: use one of {', '.join(NAMES)}", InputError)
    return tuple(int(n) for n in extents[:-1].split("x")), element


def _normalise_axes(axis: int | tuple[int, ...] | None, rank: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(rank))
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


def _kept(shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool = False) -> tuple[int, ...]:
    return tuple(1 if a in axes else n for a, n in enumerate(shape) if keepdims or a not in axes)


def _initial(initial: Number, loop_type: ElementType) -> Number:
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
        limits = np.iinfo(loop_type.numpy)
        check(limits.min <= value <= limits.max, f"initial {value} is outside {loop_type.name}: {limits.min} to {limits.max}", InputError)
    return value
