"""`@combine`: from the accumulators of a thread to the partial result of its subgroup, in the tree's order.

A thread folds its elements in ascending order; the lanes along the reduced loop combine as a balanced tree over ascending lane
bits; the first of them writes the partial.
"""

from __future__ import annotations

import functools

from iree.compiler import ir
from iree.compiler.dialects import arith, gpu, scf, vector

from ..layout import Layout
from ..mlir import DYNAMIC, binary, index, read, tensor_type, vector_type, write
from ..problem import Problem
from .functions import apply, column_lane, first_column, function, thread_id


def write_combine(module: ir.Module, problem: Problem, layout: Layout) -> None:
    """Writes `@combine([before,] accumulators, slot) -> slot`.

    accumulators: tensor<[rows x] [1 x] E>, slot: tensor<[rows] [x 1]>; the 1 is the subgroup, there when S > 1. `before`, there
    when K has a tail, are the accumulators as they stood before the last step: columns past K keep them, so that no neutral
    element is needed whatever the step computes. Without S the rows of `slot` may be fewer than the tile's, at the last workgroup.
    """
    element = problem.accumulator
    outer = ([layout.thread_rows] if layout.rows else []) + ([1] if layout.columns.subgroups > 1 else [])
    held = [*outer, layout.columns.elements]
    slot_shape = [DYNAMIC] if ragged_slot(layout) else outer
    accumulators, slot_type = tensor_type(held, element), tensor_type(slot_shape, element)
    inputs = [accumulators] * (1 + layout.column_tail) + [slot_type]
    with function(module, "combine", inputs, slot_type) as body:
        *before, after, slot = body.arguments
        zero, thread = index(0), thread_id()
        value = read(after, [zero] * len(held), held, element)
        if before:
            old = read(before[0], [zero] * len(held), held, element)
            value = arith.SelectOp(_inside(layout, held, thread), value, old).result
        totals = [_lanes(problem, layout, _fold(problem, value, row, held)) for row in range(layout.thread_rows)]
        partial = vector.FromElementsOp(vector_type(outer, element), totals).result
        body.give(_store(layout, partial, slot, thread, outer))


def ragged_slot(layout: Layout) -> bool:
    """Whether the partial is the result itself and the last workgroup has fewer rows than the tile."""
    return layout.row_tail and layout.columns.subgroups == 1 and not layout.has_epilogue


def _inside(layout: Layout, held: list[int], thread: ir.Value) -> ir.Value:
    """Mask of the elements whose column, in the last step, lies before K."""
    left = apply(layout.columns.remainder - first_column(layout, ir.AffineSymbolExpr.get(0)), [thread])
    bits = ir.VectorType.get(held, ir.IntegerType.get_signless(1))
    return vector.CreateMaskOp(bits, [*(index(n) for n in held[:-1]), left]).result


def _fold(problem: Problem, value: ir.Value, row: int, held: list[int]) -> ir.Value:
    """The thread's elements of one row, combined in ascending order."""
    position = ([row] if len(held) > 1 else []) + [0] * (len(held) - 2)
    if len(held) > 1 and held[0] == 1:
        position = [0] * (len(held) - 1)
    elements = [vector.ExtractOp(value, [], [*position, e]).result for e in range(held[-1])]
    return functools.reduce(functools.partial(binary, problem.op.mlir(problem.accumulator)), elements)


def _lanes(problem: Problem, layout: Layout, value: ir.Value) -> ir.Value:
    """Combines one value a lane over the lanes along the reduced loop; all of them hold the total."""
    if layout.columns.lanes == 1:
        return value
    # On ROCm a cluster reduction adds in the order of a butterfly over ascending lane bits, as data-parallel moves within the registers.
    kind = problem.op.mlir(problem.accumulator).removeprefix("arith.")
    name = {"addf": "add", "addi": "add", "mulf": "mul", "muli": "mul"}.get(kind, kind)
    reduction = ir.Attribute.parse(f"#gpu<all_reduce_op<{name}>>")
    return gpu.SubgroupReduceOp(value, reduction, cluster_size=layout.columns.lanes).result


def _store(layout: Layout, partial: ir.Value, slot: ir.Value, thread: ir.Value, outer: list[int]) -> ir.Value:
    indices = [index(0)] * len(outer)
    if layout.columns.lanes == 1:
        return write(partial, slot, indices, in_bounds=not ragged_slot(layout))
    lane = apply(column_lane(layout, ir.AffineSymbolExpr.get(0)), [thread])
    first = arith.CmpIOp(arith.CmpIPredicate.eq, lane, index(0)).result
    if ragged_slot(layout):  # one masked store, where a branch around a store of unknown size would be scalar
        mask = vector.BroadcastOp(ir.VectorType.get(outer, first.type), first).result
        return write(partial, slot, indices, in_bounds=False, mask=mask)
    branch = scf.IfOp(first, [slot.type], has_else=True)
    with ir.InsertionPoint(branch.then_block):
        scf.YieldOp([write(partial, slot, indices, in_bounds=True)])
    with ir.InsertionPoint(branch.else_block):
        scf.YieldOp([slot])
    return branch.results[0]


