"""From all accumulators of a result to its total on the CPU, in the tree's order, on vectors.

They lie as `[S, L, E]`. A block of lanes is read at a time; its elements are taken apart and folded; then neighbouring lanes combine
level by level, blocks joining as they shrink, until one value a subgroup is left.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from iree.compiler import ir
from iree.compiler.dialects import scf, vector

from ..layout import Layout
from ..mlir import index
from ..problem import Problem
from ..targets import Target
from . import arithmetic
from .arithmetic import Values

STRAIGHT = 1024  # accumulators combined in straight code
BLOCK_LANES = 16  # lanes folded together: a register of 32-bit values on AVX-512, two on AVX2

Reader = Callable[[ir.Value, int, int], Values]  # (base, offset, length) -> that many accumulators, from base + offset on
Combine = Callable[[Values, Values], Values]


def combine_accumulators(problem: Problem, target: Target, layout: Layout, reader: Reader) -> Values:
    """The total, as scalars. Few accumulators in straight code, many in a loop over the subgroups, which keeps the code short."""
    tile = layout.columns
    if tile.subgroups > 1 and tile.size > STRAIGHT:
        return _loop_over_subgroups(problem, target, layout, reader)
    return arithmetic.fold(problem, target, _partials(problem, target, layout, reader, index(0), tile.subgroups))


def _loop_over_subgroups(problem: Problem, target: Target, layout: Layout, reader: Reader) -> Values:
    """Folds the partials in ascending order, from the identity, which changes nothing."""
    stride = layout.columns.lanes * layout.columns.elements
    start = arithmetic.extract(arithmetic.identity(problem, 1), 0)
    loop = scf.ForOp(index(0), index(layout.columns.size), index(stride), list(start))
    with ir.InsertionPoint(loop.body):
        (partial,) = _partials(problem, target, layout, reader, loop.induction_variable, 1)
        scf.YieldOp(list(arithmetic.combine(problem, target, tuple(loop.inner_iter_args), partial)))
    return tuple(loop.results)


def _partials(problem: Problem, target: Target, layout: Layout, reader: Reader, first: ir.Value, subgroups: int) -> list[Values]:
    """The partials of so many subgroups, whose accumulators begin at `first`."""
    tile, combine = layout.columns, functools.partial(arithmetic.combine, problem, target)
    lanes, blocks = subgroups * tile.lanes, []
    for lane in range(0, lanes, BLOCK_LANES):
        count = min(BLOCK_LANES, lanes - lane)
        blocks.append(_fold_elements(reader(first, lane * tile.elements, count * tile.elements), tile.elements, combine))
    for _ in range(tile.lanes.bit_length() - 1):
        blocks = _combine_neighbours(blocks, combine)
    return [arithmetic.extract(block, i) for block in blocks for i in range(_length(block))]


def _length(values: Values) -> int:
    return int(ir.VectorType(values[0].type).shape[0])


def _shuffle(a: Values, b: Values, positions: range) -> Values:
    return tuple(vector.ShuffleOp(x, y, list(positions)).result for x, y in zip(a, b, strict=True))


def _fold_elements(flat: Values, elements: int, combine: Combine) -> Values:
    """`[lanes * E]` -> `[lanes]`: the elements of each lane, combined in ascending order."""
    slices = [_shuffle(flat, flat, range(e, _length(flat), elements)) for e in range(elements)] if elements > 1 else [flat]
    return functools.reduce(combine, slices)


def _combine_neighbours(blocks: list[Values], combine: Combine) -> list[Values]:
    """One level of the lanes' tree: each lane with its neighbour, two blocks becoming one of the same length."""
    joined = []
    for i in range(0, len(blocks), 2):
        pair = blocks[i : i + 2]
        total = sum(map(_length, pair))
        even, odd = (_shuffle(pair[0], pair[-1], range(start, total, 2)) for start in (0, 1))
        joined.append(combine(even, odd))
    return joined
