"""The summation tree of a tuning, computed by NumPy: what every device must equal bit for bit.

For each row, with S subgroups, L lanes and E elements a lane along the reduced loop:

1. step by step, each lane combines what it reads into E accumulators;
2. it folds them in ascending order;
3. the L lanes combine as a balanced binary tree over ascending lane bits;
4. the partials of the S subgroups fold in ascending order; `initial` joins last; one rounding to the result's type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import check
from .layout import Layout
from .problem import Number, Problem
from .tuning import Tuning

if TYPE_CHECKING:
    from numpy.typing import ArrayLike  # a millisecond to import

Array = np.ndarray[Any, np.dtype[Any]]


def reference(
    x: ArrayLike,
    tuning: object,
    *,
    op: str = "sum",
    axis: int | tuple[int, ...] | None = -1,
    keepdims: bool = False,
    dtype: object = None,
    initial: Number | None = None,
) -> Array:
    """What `reduce` with this tuning returns on every device, computed by NumPy in the same order.

    x: any shape and supported type. Arguments and errors as `reduce`; the target's limits are not checked.

    >>> reference([1.0, 2.0, 3.0], {"partial_reduction": [64], "lane_basis": [[16], [0]]}).item()
    6.0
    """
    array = np.asarray(x)
    problem = Problem.of(array.shape, array.dtype, op, axis, keepdims, dtype, initial)
    parsed = Tuning.parse(tuning)
    layout = None if problem.is_empty or problem.columns == 1 else Layout.of(problem, parsed)
    return tree(as_matrix(array, problem), problem, layout).reshape(problem.kept_shape)


def as_matrix(x: Array, problem: Problem) -> Array:
    """The problem's array as `[rows, K]`: the kept axes, then the reduced ones, each in their order."""
    return np.moveaxis(x, problem.axes, range(-len(problem.axes), 0)).reshape(problem.rows, problem.columns)


def tree(matrix: Array, problem: Problem, layout: Layout | None) -> Array:
    """`[rows, K]` -> `[rows]`, in the order of `layout` (None where there is nothing to distribute: K is 0 or 1)."""
    combine, accumulator = _combine(problem), problem.accumulator.numpy
    check(matrix.ndim == 2, f"tree takes a matrix, not {matrix.ndim} dimensions")
    identity = problem.op.identity(problem.accumulator)
    with np.errstate(all="ignore"):  # overflow and NaN are results here, as on every device
        elements = matrix.astype(problem.loop_type.numpy).astype(accumulator)
        if layout is None:
            totals = np.full(len(matrix), identity) if problem.columns == 0 else elements[:, 0]
        else:
            totals = _tree(elements, identity, problem, layout)
        if problem.initial is not None:
            totals = combine(accumulator.type(problem.initial), totals)
        return np.asarray(totals.astype(problem.result.numpy))


def _combine(problem: Problem) -> Callable[[Any, Any], Any]:
    """The op on two arrays, as the devices do it: `numpy.maximum` gives either of +0 and -0, they the larger one, which is +0."""
    ufunc = problem.op.ufunc
    if problem.op.widens or not problem.accumulator.is_float:
        return ufunc
    negative = np.logical_and if problem.op.name == "max" else np.logical_or

    def extreme(a: Array, b: Array) -> Array:
        chosen = ufunc(a, b)
        zero = np.copysign(chosen, np.where(negative(np.signbit(a), np.signbit(b)), -1, 1).astype(chosen.dtype))
        picked: Array = np.where(chosen == 0, zero, chosen)
        return picked

    return extreme


def _tree(elements: Array, identity: Any, problem: Problem, layout: Layout) -> Array:
    combine, rows = _combine(problem), len(elements)
    tile = layout.columns
    accumulators = np.full((rows, tile.size), identity)
    for first in range(0, tile.extent, tile.size):
        step = elements[:, first : first + tile.size]
        accumulators[:, : step.shape[1]] = combine(accumulators[:, : step.shape[1]], step)  # past K they stay as they are
    held = accumulators.reshape(rows, tile.subgroups, tile.lanes, tile.elements)
    lanes = held[..., 0]
    for e in range(1, tile.elements):
        lanes = combine(lanes, held[..., e])
    while lanes.shape[-1] > 1:
        lanes = combine(lanes[..., 0::2], lanes[..., 1::2])
    subgroups = lanes[..., 0]
    total = subgroups[:, 0]
    for s in range(1, tile.subgroups):
        total = combine(total, subgroups[:, s])
    return np.asarray(total)
