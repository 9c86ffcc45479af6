"""What is computed: shape, type, op and axes, brought to the canonical loops that a tuning speaks of.

`4x1x4096` reduced over its last axis is the loops `(rows=4, K=4096)`; `1x4096` and `4096` are `(K=4096)`. See `loops.py`.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .element_types import ElementType
from .errors import InputError, InputTypeError, check
from .expressions import BOOL, Value, Values, fma, where
from .expressions_numpy import array_value
from .expressions_trace import Trace
from .functions import Function, Given
from .loops import NAMES as LOOP_NAMES
from .loops import Dimension, K, extent_of, in_memory
from .numpy_rules import Number, initial_of, kept_shape_of, loop_type_of, normalise_axes
from .op import About, Op
from .ops import find_op


@dataclass(frozen=True)
class Problem:
    """One reduction. Build it with `Problem.of`, which follows NumPy's rules for axes, types and `initial`.

    input: element type of the array
    loop_type: the type each element is cast to first (NumPy's `dtype=`)
    result: the type of the output, into which what the op finishes is rounded once
    initial: joins the total once, last, before the op finishes it; None: nothing joins
    """

    op: Op
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    keepdims: bool
    input: ElementType
    loop_type: ElementType
    result: ElementType
    initial: Number | None
    ddof: int = 0
    map: Function | None = None
    finalize: Function | None = None
    others: tuple[ElementType, ...] = ()  # types of the further results of several ops
    masked: bool = False  # whether a mask, the kernel's second input, says which elements count

    @staticmethod
    def of(
        shape: tuple[int, ...],
        dtype: object = "f32",
        op: str | tuple[str, ...] = "sum",
        axis: int | tuple[int, ...] | None = -1,
        keepdims: bool = False,
        out_dtype: object = None,
        initial: Number | None = None,
        ddof: int = 0,
        map: Given | None = None,
        finalize: Given | None = None,
        masked: bool = False,
    ) -> Problem:
        """The problem of `numpy.<op>(x, axis, out_dtype, keepdims=, initial=)` for an x of this shape and type.

        masked: whether the call has NumPy's `where=`, an array of bools.

        Raises InputError for an op or type that is not known, AxisError and ValueError as NumPy does.

        >>> p = Problem.of((4, 4096), "f16")
        >>> p.rows, p.columns, p.accumulator.name, p.result.name
        (4, 4096, 'f32', 'f16')
        """
        the_op, element = find_op(op, masked), ElementType.of(dtype)
        check(all(type(n) is int and n >= 0 for n in shape), f"shape {shape}: every extent is an integer of at least 0", InputError)
        check(math.prod(shape) * element.bytes < 2**63, f"shape {shape}: it has more bytes than can be counted in 64 bits", InputError)
        check(
            isinstance(masked, (bool, np.bool_)),
            f"masked {masked!r} is not a boolean: the mask itself is given to the plan's call",
            InputTypeError,
        )
        if not isinstance(keepdims, (bool, int, np.bool_)):
            raise TypeError(f"keepdims {keepdims!r} is not a boolean: use True or False")
        axes = normalise_axes(axis, len(shape))
        mapped = None if map is None else Function.of("map", map, element if element.is_bool else element.accumulator)
        # What a map gives of a short float in f32 is taken for the short float itself, as if it had not been widened.
        seen = element if mapped is None or mapped.gives == mapped.takes else mapped.gives
        loop_type = loop_type_of(the_op, seen, out_dtype)
        check(
            initial is None or the_op.takes_initial,
            f"initial {initial!r}: {the_op.numpy} has none; leave it out, and join it to the result",
            InputTypeError,
        )
        is_number = isinstance(ddof, (int, float, np.integer, np.floating))
        check(is_number and not abs(ddof) >= 2**63, f"ddof {str(ddof)[:40]} is not a number of elements: give one, e.g. 1", InputTypeError)
        check(ddof == 0 or the_op.takes_ddof, f"ddof {ddof}: {the_op.numpy} has none; leave it out", InputTypeError)
        columns = math.prod(shape[a] for a in axes)
        if columns == 0 and initial is None and the_op.empty == "error" and 0 not in kept_shape_of(shape, axes):
            name = the_op.numpy.removeprefix("numpy.").removesuffix(".reduce")
            raise ValueError(f"zero-size array to reduction operation {name} which has no identity")
        if masked and initial is None and the_op.empty == "error":
            check(
                "," not in the_op.name,
                f"where: one of {the_op.asked} has no identity; give it alone, with initial",
                InputError,
            )
            name = the_op.numpy.removeprefix("numpy.").removesuffix(".reduce")
            raise ValueError(f"reduction operation {name!r} does not have an identity, so to use a where mask one has to specify 'initial'")
        start = the_op.default_initial(loop_type) if initial is None else initial_of(initial, loop_type)
        outcome, finished = the_op.result(loop_type), None
        result, *others = outcome if isinstance(outcome, tuple) else (outcome,)
        if finalize is not None:
            check(not others, "finalize: of several ops it is not known which it is for; finish the results with NumPy", InputError)
            finished = Function.of("finalize", finalize, result if result.is_bool else result.accumulator)
            result = result if finished.gives == finished.takes else finished.gives
        joins = the_op, tuple(shape), axes, bool(keepdims), element, loop_type, result, start
        return Problem(*joins, ddof, mapped, finished, tuple(others), masked)

    @functools.cached_property
    def kept_shape(self) -> tuple[int, ...]:
        """The result's shape."""
        return kept_shape_of(self.shape, self.axes, self.keepdims)

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
    def takes_index(self) -> bool:
        """Whether a step needs to know the element's column."""
        return self.op.takes_index

    @property
    def is_empty(self) -> bool:
        """Nothing to run: no result, or every result is the identity."""
        return self.rows == 0 or self.columns == 0

    @property
    def computed(self) -> ElementType:
        """The type that elements are computed in, before they are accumulated."""
        return self.loop_type.accumulator

    @functools.cached_property
    def accumulators(self) -> tuple[ElementType, ...]:
        return self.op.accumulators(self.computed)

    @property
    def accumulator(self) -> ElementType:
        """The type of the accumulator, where the op has one; of the first of several."""
        return self.accumulators[0]

    def element(self, x: Value) -> Value:
        """What is read of the array -> what the op takes: mapped, in the loop's type, in the type that it is computed in."""
        if self.map is None:
            x = x.cast(self.input.accumulator)
        else:
            x = self.map(x.cast(self.map.takes))
            if self.map.gives == self.map.takes and not self.input.is_float:
                x = x.cast(self.input)  # a short integer's result is one, and wraps
        return x.cast(self.loop_type).cast(self.computed)

    @property
    def inputs(self) -> tuple[ElementType, ...]:
        """The types of the kernel's inputs: the array's, and the mask's."""
        return (self.input, BOOL) if self.masked else (self.input,)

    def step(self, accumulators: Values, x: Values, column: Value | None = None) -> Values:
        """The accumulators with one element more, as the inputs are read; where the mask doesn't hold, as they were."""
        element, *mask = x
        joined = self._joined(accumulators, element, column)
        return self._kept(mask, joined, accumulators)

    def alone(self, x: Values, joined: Values | None, column: Value | None = None) -> Values:
        """The accumulators of a single element, and of what joins. column: 0, where the op takes an index."""
        element, *mask = x
        total = self.op.alone(self.element(element), joined, column)
        parts = zip(self.op.identity(self.accumulators), self.accumulators, strict=True)
        nothing = tuple(Value(element.backend.constant(value, kind, element.raw), kind, element.backend) for value, kind in parts)
        return self._kept(mask, total, nothing if joined is None else joined)

    @staticmethod
    def _kept(mask: list[Value], new: Values, old: Values) -> Values:
        return tuple(where(mask[0], a, b) for a, b in zip(new, old, strict=True)) if mask else new

    def _joined(self, accumulators: Values, x: Value, column: Value | None) -> Values:
        """A product that the map ends in feeds a sum: both round once."""
        if self.map is not None and self.op.adds_elements and self.map.gives == self.computed == self.accumulator:
            factors = self.map.factors(x.cast(self.map.takes))
            if factors is not None:
                _, *others = self.op.step(accumulators, self.element(x), column)
                return fma(*factors, accumulators[0]), *others
        return self.op.step(accumulators, self.element(x), column)

    def finish(self, totals: Values) -> Values:
        """The accumulators' total -> the result, or the results of several ops."""
        finished = self.op.finish(totals, self.about)
        values = finished if isinstance(finished, tuple) else (finished,)
        if self.finalize is not None:
            values = (self.finalize(values[0].cast(self.finalize.takes)),)
        return tuple(value.cast(element) for value, element in zip(values, self.results, strict=True))

    @property
    def results(self) -> tuple[ElementType, ...]:
        """The types of all results."""
        return (self.result, *self.others)

    @property
    def about(self) -> About:
        return About(self.columns, self.computed, self.ddof)

    @property
    def identity(self) -> Any:
        """What changes nothing, as a NumPy scalar of the accumulator's type."""
        return self.accumulator.numpy.type(self.op.identity(self.accumulators)[0])

    @property
    def start(self) -> Any:
        """What the accumulators start from: the identity, or +0.0 for a sum that +0.0 joins.

        Sums that start from +0.0 equal sums from -0.0 joined by +0.0 at the end, bit for bit: the two differ in the sign of
        a zero total only, and a chain from +0.0 never reaches -0.0. So the default `initial` costs nothing.
        """
        return self.accumulator.numpy.type(0) if self.starts_from_zero else self.identity

    @property
    def epilogue_initial(self) -> Number | None:
        """`initial` where it has to be joined after the tree: neither the identity nor absorbed by `start`; else None."""
        if self.initial is None or self.starts_from_zero:
            return None
        with np.errstate(over="ignore", invalid="ignore"):  # too large a number is infinite, as in NumPy
            (start,) = self.op.join(array_value(self.initial, self.computed))
        return None if start.raw.tobytes() == self.identity.tobytes() else self.initial

    @property
    def is_settled(self) -> bool:
        """Whether `initial` alone decides every result, which a compiler may notice: 0 in an integer product, the highest in a maximum."""
        if self.initial is None or self.loop_type.is_float:
            return False
        low, high = self.loop_type.limits
        settling = {
            "prod": 0, "max": high, "fmax": high, "min": low, "fmin": low,
            "bitwise_and": 0, "bitwise_or": high if self.loop_type.is_unsigned or self.loop_type.is_bool else -1,
        }  # fmt: skip
        return self.initial == settling.get(self.op.name)

    @property
    def has_epilogue(self) -> bool:
        """Whether each result passes through one more elementwise step: joining `initial`, finishing, rounding to the result's type."""
        if self.epilogue_initial is not None or self.taken is None:
            return True
        return tuple(self.accumulators[i] for i in self.taken) != self.results

    @functools.cached_property
    def taken(self) -> tuple[int, ...] | None:
        """Which of the accumulators are the results as they are; None where one is computed from them."""
        held = [Trace.input(f"total {i}", element) for i, element in enumerate(self.accumulators)]
        if self.finalize is not None:
            return None
        finished = self.op.finish(tuple(held), self.about)
        raws = [value.raw for value in (finished if isinstance(finished, tuple) else (finished,))]
        places = {id(value.raw): i for i, value in enumerate(held)}
        return tuple(places[id(raw)] for raw in raws) if all(id(raw) in places for raw in raws) else None

    @property
    def starts_from_zero(self) -> bool:
        """Whether +0.0 joins a sum of floats: its accumulators may start from it."""
        plus_zero = self.initial == 0 and math.copysign(1.0, self.initial) > 0
        return self.op.adds and self.accumulator.is_float and plus_zero

    def __str__(self) -> str:
        shape = "x".join(map(str, self.shape))
        return f"{self.op.asked} of {shape}x{self.input.name} over axes {self.axes}{' where a mask holds' if self.masked else ''}"
