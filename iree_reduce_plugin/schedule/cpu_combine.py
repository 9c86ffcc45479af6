"""`@combine` for the CPU: from all accumulators of a row to its total, in the tree's order, on vectors.

The accumulators of a row lie in memory as `[S, L, E]`. A block of lanes is read at a time; its elements are taken apart and
folded; then neighbouring lanes combine level by level, blocks joining as they shrink, until one value a subgroup is left.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from iree.compiler import ir
from iree.compiler.dialects import scf, tensor, vector

from ..layout import Layout
from ..mlir import binary, constant, index, read, tensor_type, vector_type, write
from ..problem import Problem
from .functions import apply, function

STRAIGHT = 1024  # accumulators combined in straight code
BLOCK_LANES = 16  # lanes folded together: a register of 32-bit values on AVX-512, two on AVX2

Combine = Callable[[ir.Value, ir.Value], ir.Value]


def write_combine(module: ir.Module, problem: Problem, layout: Layout) -> None:
    """Writes `@combine(accumulators, slot) -> slot`: tensor<[1 x] S*L*E>, tensor<[1]> -> tensor<[1]>; the 1 is the row, if any.

    Few accumulators combine in straight code, all subgroups together; many in a loop over the subgroups, which keeps the code short.
    """
    element, tile = problem.accumulator, layout.columns
    row = [1] if layout.rows else []
    accumulators, slot = tensor_type([*row, tile.size], element), tensor_type(row, element)
    with function(module, "combine", [accumulators, slot], slot) as body:
        held, target = body.arguments
        if tile.subgroups > 1 and tile.size > STRAIGHT:
            total = _loop_over_subgroups(held, problem, layout)
        else:
            total = _fold(_partials(held, index(0), tile.subgroups, problem, layout), problem)
        if row:
            one = vector.FromElementsOp(vector_type([1], element), [total]).result
            body.give(write(one, target, [index(0)], in_bounds=True))
        else:
            body.give(tensor.InsertOp(total, target, []).result)


def _fold(values: list[ir.Value], problem: Problem) -> ir.Value:
    return functools.reduce(functools.partial(binary, problem.op.mlir(problem.accumulator)), values)


def _loop_over_subgroups(held: ir.Value, problem: Problem, layout: Layout) -> ir.Value:
    """Folds the partials in ascending order, from the identity, which changes nothing."""
    stride = layout.columns.lanes * layout.columns.elements
    start = constant(problem.op.identity(problem.accumulator), problem.accumulator)
    loop = scf.ForOp(index(0), index(layout.columns.size), index(stride), [start])
    with ir.InsertionPoint(loop.body):
        (partial,) = _partials(held, loop.induction_variable, 1, problem, layout)
        scf.YieldOp([_fold([loop.inner_iter_args[0], partial], problem)])
    return loop.results[0]


def _partials(held: ir.Value, first: ir.Value, subgroups: int, problem: Problem, layout: Layout) -> list[ir.Value]:
    """The partials of so many subgroups, whose accumulators begin at `first`."""
    tile, combine = layout.columns, functools.partial(binary, problem.op.mlir(problem.accumulator))
    lanes, blocks = subgroups * tile.lanes, []
    for lane in range(0, lanes, BLOCK_LANES):
        count = min(BLOCK_LANES, lanes - lane)
        at = apply(ir.AffineSymbolExpr.get(0) + lane * tile.elements, [first])
        flat = read(held, [*([index(0)] if layout.rows else []), at], [count * tile.elements], problem.accumulator)
        blocks.append(_fold_elements(flat, tile.elements, combine))
    for _ in range(tile.lanes.bit_length() - 1):
        blocks = _combine_neighbours(blocks, combine)
    return [vector.ExtractOp(block, [], [i]).result for block in blocks for i in range(_length(block))]


def _length(value: ir.Value) -> int:
    return int(ir.VectorType(value.type).shape[0])


def _shuffle(a: ir.Value, b: ir.Value, positions: range) -> ir.Value:
    return vector.ShuffleOp(a, b, list(positions)).result


def _fold_elements(flat: ir.Value, elements: int, combine: Combine) -> ir.Value:
    """`[lanes * E]` -> `[lanes]`: the elements of each lane, combined in ascending order."""
    slices = [_shuffle(flat, flat, range(e, _length(flat), elements)) for e in range(elements)] if elements > 1 else [flat]
    return functools.reduce(combine, slices)


def _combine_neighbours(blocks: list[ir.Value], combine: Combine) -> list[ir.Value]:
    """One level of the lanes' tree: each lane with its neighbour, two blocks becoming one of the same length."""
    joined = []
    for i in range(0, len(blocks), 2):
        pair = blocks[i : i + 2]
        total = sum(map(_length, pair))
        even, odd = (_shuffle(pair[0], pair[-1], range(start, total, 2)) for start in (0, 1))
        joined.append(combine(even, odd))
    return joined
