"""`@combine` for the CPU: from all accumulators of a row to its total, in the tree's order, on vectors.

The accumulators of a row lie in memory as `[S, L, E]`. A block of lanes is read at a time; its elements are taken apart and
folded; then neighbouring lanes combine level by level, blocks joining as they shrink, until one value a subgroup is left.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from iree.compiler import ir
from iree.compiler.dialects import tensor, vector

from ..layout import Layout
from ..mlir import binary, index, read, tensor_type, vector_type, write
from ..problem import Problem
from .functions import function

BLOCK_LANES = 16  # lanes folded together: a register of 32-bit values on AVX-512, two on AVX2

Combine = Callable[[ir.Value, ir.Value], ir.Value]


def write_combine(module: ir.Module, problem: Problem, layout: Layout) -> None:
    """Writes `@combine(accumulators, slot) -> slot`: tensor<[1 x] S*L*E>, tensor<[1]> -> tensor<[1]>; the 1 is the row, if any."""
    element, tile = problem.accumulator, layout.columns
    row = [1] if layout.rows else []
    accumulators, slot = tensor_type([*row, tile.size], element), tensor_type(row, element)
    combine = functools.partial(binary, problem.op.mlir(element))
    with function(module, "combine", [accumulators, slot], slot) as body:
        held, target = body.arguments
        lanes = tile.subgroups * tile.lanes
        blocks = []
        for first in range(0, lanes, BLOCK_LANES):
            count = min(BLOCK_LANES, lanes - first)
            at = [index(0)] * len(row) + [index(first * tile.elements)]
            flat = read(held, at, [count * tile.elements], element)
            blocks.append(_fold_elements(flat, tile.elements, combine))
        levels = tile.lanes.bit_length() - 1
        for _ in range(levels):
            blocks = _combine_neighbours(blocks, combine)
        partials = [vector.ExtractOp(block, [], [i]).result for block in blocks for i in range(_length(block))]
        total = functools.reduce(combine, partials)
        if row:
            one = vector.FromElementsOp(vector_type([1], element), [total]).result
            body.give(write(one, target, [index(0)], in_bounds=True))
        else:
            body.give(tensor.InsertOp(total, target, []).result)


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
