"""Combining one value a lane across the lanes of a subgroup, as a balanced tree over ascending lane bits of the reduced loop.

Two ways to the same bits: a cluster reduction where its order is known to be that tree, and a butterfly of shuffles anywhere.
"""

from __future__ import annotations

from iree.compiler import ir
from iree.compiler.dialects import arith, gpu, vector

from ..element_types import ElementType
from ..expressions import Value, isnan, ordered, where
from ..expressions_mlir import MlirBackend, combining_op
from ..layout import Layout
from ..mlir import binary, constant_i32, index
from ..problem import Problem
from ..targets import Target
from .arithmetic import Values, combine

# `gpu.subgroup_reduce` calls them otherwise than arith.
_CLUSTER_NAMES = {"addf": "add", "addi": "add", "mulf": "mul", "muli": "mul", "andi": "and", "ori": "or", "xori": "xor"}


def combine_lanes(problem: Problem, layout: Layout, target: Target, value: Values, lane: ir.Value) -> Values:
    """The combination of `value` over the lanes along the reduced loop; each of those lanes gets it. lane: the lane's id."""
    if layout.columns.lanes == 1:
        return value
    name = combining_op(problem)
    if name is None or not target.ordered_clusters or layout.columns.lane_stride > 1:
        return _butterfly(problem, target, layout, value)
    (one,) = value
    element = problem.accumulator
    key = _KEYS.get(name)
    if key is not None:
        one = _to_key(Value(one, element, MlirBackend(target)), key).raw
    wide = layout.subgroup_size > min(target.subgroup_sizes or ())
    one = _cluster_in_wide_wave(key or name, layout, one, lane) if wide else _cluster(key or name, one, layout.columns.lanes)
    if key is not None:
        one = ordered(Value(one, ElementType(f"i{element.bits}"), MlirBackend(target))).bitcast(element).raw
    return (one,)


# IREE lowers `maximumf` for ROCm to an instruction that ignores NaN (its ReplaceSlowMinMaxOps). Integers in the floats' order are exact:
# -0 lies below +0, and a NaN is put beyond the infinity where it wins.
_KEYS = {"arith.maximumf": "arith.maxsi", "arith.minimumf": "arith.minsi"}


def _to_key(value: Value, name: str) -> Value:
    bits = value.bitcast(f"i{value.element.bits}")
    low, high = bits.element.limits
    return where(isnan(value), high if name == "arith.maxsi" else low, ordered(bits))


def _cluster(name: str, value: ir.Value, lanes: int) -> ir.Value:
    """`gpu.subgroup_reduce`: on ROCm moves within the registers, without a trip through the crossbar."""
    kind = name.removeprefix("arith.")
    reduction = ir.Attribute.parse(f"#gpu<all_reduce_op<{_CLUSTER_NAMES.get(kind, kind)}>>")
    return gpu.SubgroupReduceOp(value, reduction, cluster_size=lanes).result


def _cluster_in_wide_wave(name: str, layout: Layout, value: ir.Value, lane: ir.Value) -> ir.Value:
    """Wave 64 where the hardware's own width is 32 (gfx11, gfx12): neither a cluster of 32 nor a shuffle crosses its halves rightly.

    IREE lowers a cluster of 32 as if it were the whole wave. So rows of 16 lanes combine by themselves, and their totals, read lane by
    lane, in the same order.
    """
    row = 16
    total = _cluster(name, value, min(layout.columns.lanes, row))
    if layout.columns.lanes <= row:
        return total
    mode = ir.Attribute.parse("#gpu<broadcast<specific_lane>>")
    rows = [gpu.SubgroupBroadcastOp(total, mode, lane=constant_i32(first)).result for first in range(0, layout.subgroup_size, row)]
    lower, upper = binary(name, *rows[:2]), binary(name, *rows[2:])
    if layout.columns.lanes == layout.subgroup_size:
        return binary(name, lower, upper)
    in_lower = arith.CmpIOp(arith.CmpIPredicate.ult, lane, index(2 * row)).result
    return arith.SelectOp(in_lower, lower, upper).result


def _butterfly(problem: Problem, target: Target, layout: Layout, value: Values) -> Values:
    """Each lane combines with the one whose place along the reduced loop differs in bit 0, then in bit 1, and so on."""
    width = constant_i32(layout.subgroup_size)
    for bit in range(layout.columns.lanes.bit_length() - 1):
        mask = constant_i32(layout.columns.lane_stride << bit)
        other = tuple(_shuffle(one, mask, width, element) for one, element in zip(value, problem.accumulators, strict=True))
        value = combine(problem, target, value, other)
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
