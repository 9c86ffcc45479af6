"""The summation tree of a tuning, computed by NumPy: what every device must equal bit for bit.

For each row, with S subgroups, L lanes and E elements a lane along the reduced loop:

1. step by step, each lane combines what it reads into E accumulators;
2. it folds them in ascending order;
3. the L lanes combine as a balanced binary tree over ascending lane bits;
4. the partials of the S subgroups fold in ascending order; `initial` joins last; the op finishes; one rounding to the result's type.

What an op computes is in `ops`, for the reference and for the devices alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import check
from .expressions import Value, Values
from .expressions_numpy import array_value
from .functions import Given
from .layout import Layout, Tile
from .numpy_rules import Number, mask_of
from .op import I64
from .problem import Problem
from .split import Merge, merge_layout
from .tuning import Tuning

if TYPE_CHECKING:
    from numpy.typing import ArrayLike  # a millisecond to import

Array = np.ndarray[Any, np.dtype[Any]]


def reference(
    x: ArrayLike,
    tuning: object,
    *,
    op: str | tuple[str, ...] = "sum",
    axis: int | tuple[int, ...] | None = -1,
    keepdims: bool = False,
    dtype: object = None,
    initial: Number | None = None,
    ddof: int = 0,
    map: Given | None = None,
    finalize: Given | None = None,
    where: ArrayLike | None = None,
) -> Any:
    """What `reduce` with this tuning returns on every device, computed by NumPy in the same order.

    x: any shape and supported type. Arguments and errors as `reduce`; the target's limits are not checked.
    ddof: NumPy's, of var and std. map, finalize, where: as `reduce`'s.

    >>> reference([1.0, 2.0, 3.0], {"partial_reduction": [64], "lane_basis": [[16], [0]]}).item()
    6.0
    """
    array = np.asarray(x)
    mask = mask_of(where, array.shape)
    problem = Problem.of(array.shape, array.dtype, op, axis, keepdims, dtype, initial, ddof, map, finalize, mask is not None)
    parsed = Tuning.parse(tuning)
    layout = None if problem.is_empty or problem.columns == 1 else Layout.of(problem, parsed)
    inputs = [as_matrix(one, problem) for one in (array, mask) if one is not None]
    results = [result.reshape(problem.kept_shape) for result in trees(inputs, problem, layout)]
    return results[0] if len(results) == 1 else tuple(results)


def as_matrix(x: Array, problem: Problem) -> Array:
    """The problem's array as `[rows, K]`: the kept axes, then the reduced ones, each in their order."""
    return np.moveaxis(x, problem.axes, range(-len(problem.axes), 0)).reshape(problem.rows, problem.columns)


def tree(matrix: Array, problem: Problem, layout: Layout | None) -> Array:
    """`[rows, K]` -> `[rows]`, in the order of `layout` (None where there is nothing to distribute: K is 0 or 1)."""
    (result,) = trees([matrix], problem, layout)
    return result


def trees(inputs: Sequence[Array], problem: Problem, layout: Layout | None) -> tuple[Array, ...]:
    """As `tree`, every result of several ops. inputs: the matrix, and the mask in the same form, where there is one."""
    check(inputs[0].ndim == 2, f"tree takes a matrix, not {inputs[0].ndim} dimensions")
    rows = len(inputs[0])
    op = problem.op
    with np.errstate(all="ignore"):  # overflow and NaN are results here, as on every device
        elements = tuple(array_value(matrix, element) for matrix, element in zip(inputs, problem.inputs, strict=True))
        joined = None if problem.initial is None else op.join(array_value(problem.initial, problem.computed))
        if layout is None and problem.columns == 1:
            totals = problem.alone(_each(elements, np.s_[:, 0]), joined, array_value(0, I64))
        else:
            totals = _starts(problem, (rows,)) if layout is None else _pieces(elements, problem, layout)
            totals = totals if joined is None else op.combine(joined, totals)
        results = [np.asarray(np.broadcast_to(result.raw, rows)) for result in problem.finish(totals)]
    return tuple(results)


def _starts(problem: Problem, shape: tuple[int, ...]) -> Values:
    values = zip(problem.op.identity(problem.accumulators), problem.accumulators, strict=True)
    return tuple(array_value(np.full(shape, value, element.numpy), element) for value, element in values)


def _at(value: Value, where: Any) -> Value:
    return Value(value.raw[where], value.element, value.backend)


def _each(values: Values, where: Any) -> Values:
    return tuple(_at(value, where) for value in values)


def _pieces(elements: Values, problem: Problem, layout: Layout) -> Values:
    """The total of K's one piece, or of several by a tree of theirs."""
    if layout.pieces == 1:
        return _tree(elements, problem, layout.columns)
    rows, columns = len(elements[0].raw), layout.piece_steps * layout.columns.size
    before = (layout.pieces - 1) * columns  # all but the last are of one length, and their trees are computed side by side
    flat = tuple(Value(value.raw[:, :before].reshape(-1, columns), value.element, value.backend) for value in elements)
    firsts = np.tile(np.arange(0, before, columns), rows)[:, None]
    alike = _tree(flat, problem, layout.columns, firsts)
    last = _tree(_each(elements, np.s_[:, before:]), problem, layout.columns, before)
    both = [np.concatenate([np.reshape(a.raw, (rows, -1)), np.reshape(b.raw, (rows, 1))], axis=1) for a, b in zip(alike, last, strict=True)]
    totals = tuple(array_value(value, element) for value, element in zip(both, problem.accumulators, strict=True))
    return _tree(totals, Merge.part_of(problem, layout), merge_layout(layout).columns)


def _tree(elements: Values, problem: Problem, tile: Tile, column: Any = 0) -> Values:
    """column: the number of the first one."""
    op, rows, extent = problem.op, len(elements[0].raw), elements[0].raw.shape[1]
    accumulators = _starts(problem, (rows, tile.size))
    for first in range(0, extent, tile.size):
        step = _each(elements, np.s_[:, first : first + tile.size])
        length = step[0].raw.shape[1]
        read = np.s_[:, :length]
        columns = array_value(column + np.arange(first, first + length), I64)
        new = problem.step(_each(accumulators, read), step, columns)
        for held, changed in zip(accumulators, new, strict=True):
            held.raw[read] = changed.raw  # past K they stay as they are

    shape = (rows, tile.subgroups, tile.lanes, tile.elements)
    folded = tuple(Value(value.raw.reshape(shape), value.element, value.backend) for value in accumulators)
    lanes = _each(folded, np.s_[..., 0])
    for e in range(1, tile.elements):
        lanes = op.combine(lanes, _each(folded, np.s_[..., e]))
    while lanes[0].raw.shape[-1] > 1:
        lanes = op.combine(_each(lanes, np.s_[..., 0::2]), _each(lanes, np.s_[..., 1::2]))
    subgroups = _each(lanes, np.s_[..., 0])
    total = _each(subgroups, np.s_[:, 0])
    for s in range(1, tile.subgroups):
        total = op.combine(total, _each(subgroups, np.s_[:, s]))
    return total
