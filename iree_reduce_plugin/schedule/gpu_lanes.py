"""Combining one value a lane across the lanes of a subgroup, as a balanced tree over ascending lane bits.

Two ways to the same bits: a cluster reduction where its order is known to be that tree, and a butterfly of shuffles anywhere.
"""

from __future__ import annotations

import functools

from iree.compiler import ir
from iree.compiler.dialects import arith, gpu, vector

from ..element_types import ElementType
from ..layout import Layout
from ..mlir import binary, index
from ..problem import Problem
from ..targets import Target
from .functions import apply, thread_id

_CLUSTER_NAMES = {"addf": "add", "addi": "add", "mulf": "mul", "muli": "mul"}  # the others are named as in arith


def combine_lanes(problem: Problem, layout: Layout, target: Target, value: ir.Value) -> ir.Value:
    """The combination of `value` over the lanes along the reduced loop; each of those lanes gets it."""
    if layout.columns.lanes == 1:
        return value
    if not target.ordered_clusters:
        return _butterfly(problem, layout, value)
    if layout.subgroup_size > min(target.subgroup_sizes or ()):
        return _cluster_in_wide_wave(problem, layout, value)
    return _cluster(problem, value, layout.columns.lanes)


def _cluster(problem: Problem, value: ir.Value, lanes: int) -> ir.Value:
    """`gpu.subgroup_reduce`: on ROCm moves within the registers, without a trip through the crossbar."""
    kind = problem.op.mlir(problem.accumulator).removeprefix("arith.")
    reduction = ir.Attribute.parse(f"#gpu<all_reduce_op<{_CLUSTER_NAMES.get(kind, kind)}>>")
    return gpu.SubgroupReduceOp(value, reduction, cluster_size=lanes).result


def _cluster_in_wide_wave(problem: Problem, layout: Layout, value: ir.Value) -> ir.Value:
    """Wave 64 where the hardware's own width is 32 (gfx11, gfx12): neither a cluster of 32 nor a shuffle crosses its halves rightly.

    IREE lowers a cluster of 32 as if it were the whole wave. So rows of 16 lanes combine by themselves, and their totals, read lane by
    lane, in the same order.
    """
    row = 16
    total = _cluster(problem, value, min(layout.columns.lanes, row))
    if layout.columns.lanes <= row:
        return total
    mode = ir.Attribute.parse("#gpu<broadcast<specific_lane>>")
    rows = [gpu.SubgroupBroadcastOp(total, mode, lane=_i32(lane)).result for lane in range(0, layout.subgroup_size, row)]
    combine = functools.partial(binary, problem.op.mlir(problem.accumulator))
    lower, upper = combine(*rows[:2]), combine(*rows[2:])
    if layout.columns.lanes == layout.subgroup_size:
        return combine(lower, upper)
    lane = apply(ir.AffineSymbolExpr.get(0) % layout.subgroup_size, [thread_id()])
    in_lower = arith.CmpIOp(arith.CmpIPredicate.ult, lane, index(2 * row)).result
    return arith.SelectOp(in_lower, lower, upper).result


def _butterfly(problem: Problem, layout: Layout, value: ir.Value) -> ir.Value:
    """Each lane combines with the one whose id differs in bit 0, then in bit 1, and so on."""
    width = _i32(layout.subgroup_size)
    for bit in range(layout.columns.lanes.bit_length() - 1):
        other = _shuffle(value, _i32(1 << bit), width, problem.accumulator)
        value = binary(problem.op.mlir(problem.accumulator), value, other)
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


def _i32(value: int) -> ir.Value:
    i32 = ir.IntegerType.get_signless(32)
    return arith.ConstantOp(i32, ir.IntegerAttr.get(i32, value)).result
