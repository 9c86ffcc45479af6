"""Combining one value a lane across the lanes of a subgroup, as a balanced tree over ascending lane bits of the reduced loop.

Two ways to the same bits: a cluster reduction where its order is known to be that tree, and a butterfly of shuffles anywhere.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from iree.compiler import ir
from iree.compiler.dialects import arith, gpu, vector

from ..element_types import ElementType
from ..layout import Layout
from ..mlir import constant_i32, index
from ..problem import Problem
from ..targets import Target
from .arithmetic import Values, combine, select

# `gpu.subgroup_reduce` calls them otherwise than arith.
_CLUSTER_NAMES = {"addf": "add", "addi": "add", "mulf": "mul", "muli": "mul"}


def combine_lanes(problem: Problem, layout: Layout, target: Target, value: Values, lane: ir.Value) -> Values:
    """The combination of `value` over the lanes along the reduced loop; each of those lanes gets it. lane: the lane's id."""
    if layout.columns.lanes == 1:
        return value
    if not target.ordered_clusters or layout.columns.lane_stride > 1:
        return _butterfly(problem, layout, value)
    if layout.subgroup_size > min(target.subgroup_sizes or ()):
        return _cluster_in_wide_wave(problem, layout, value, lane)
    return _cluster(problem, value, layout.columns.lanes)


def _cluster(problem: Problem, value: Values, lanes: int) -> Values:
    """`gpu.subgroup_reduce`: on ROCm moves within the registers, without a trip through the crossbar."""
    kind = problem.op.mlir(problem.accumulator).removeprefix("arith.")
    reduction = ir.Attribute.parse(f"#gpu<all_reduce_op<{_CLUSTER_NAMES.get(kind, kind)}>>")
    return tuple(gpu.SubgroupReduceOp(one, reduction, cluster_size=lanes).result for one in value)


def _cluster_in_wide_wave(problem: Problem, layout: Layout, value: Values, lane: ir.Value) -> Values:
    """Wave 64 where the hardware's own width is 32 (gfx11, gfx12): neither a cluster of 32 nor a shuffle crosses its halves rightly.

    IREE lowers a cluster of 32 as if it were the whole wave. So rows of 16 lanes combine by themselves, and their totals, read lane by
    lane, in the same order.
    """
    row = 16
    total = _cluster(problem, value, min(layout.columns.lanes, row))
    if layout.columns.lanes <= row:
        return total
    mode = ir.Attribute.parse("#gpu<broadcast<specific_lane>>")
    rows = [
        tuple(gpu.SubgroupBroadcastOp(one, mode, lane=constant_i32(first)).result for one in total)
        for first in range(0, layout.subgroup_size, row)
    ]
    together: Callable[[Values, Values], Values] = functools.partial(combine, problem)
    lower, upper = together(*rows[:2]), together(*rows[2:])
    if layout.columns.lanes == layout.subgroup_size:
        return together(lower, upper)
    in_lower = arith.CmpIOp(arith.CmpIPredicate.ult, lane, index(2 * row)).result
    return select(in_lower, lower, upper)


def _butterfly(problem: Problem, layout: Layout, value: Values) -> Values:
    """Each lane combines with the one whose place along the reduced loop differs in bit 0, then in bit 1, and so on."""
    width = constant_i32(layout.subgroup_size)
    for bit in range(layout.columns.lanes.bit_length() - 1):
        mask = constant_i32(layout.columns.lane_stride << bit)
        other = tuple(_shuffle(one, mask, width, problem.accumulator) for one in value)
        value = combine(problem, value, other)
    return value


def _shuffle(value: ir.Value, mask: ir.Value, width: ir.Value, element: ElementType) -> ir.Value:
    """The value of the lane whose id is this one's xor `mask`; 64-bit values go as two words, which every target can."""
    mode = ir.Attribute.parse("#gpu<shuffle_mode<xor>>")
    if element.bits == 32:
        return gpu.ShuffleOp(value, mask, width, mode).results[0]
    i32 = ir.IntegerType.get_signless(32)
    one, two = ir.VectorType.get([1], value.type), ir.VectorType.get([2], i32)
    words = vector.BitCastOp(two, vector.BroadcastOp(one, value).result).result
    halves = [vector.ExtractOp(words, [], [i]).result for i in (0, 1)]
    moved = [gpu.ShuffleOp(half, mask, width, mode).results[0] for half in halves]
    joined = vector.BitCastOp(one, vector.FromElementsOp(two, moved).result).result
    return vector.ExtractOp(joined, [], [0]).result
