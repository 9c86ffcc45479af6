"""`@combine`: from the accumulators of a thread to the partial result of its subgroup, in the tree's order.

A thread folds its elements in ascending order; the lanes along the reduced loop combine as a balanced tree over ascending lane
bits; the first of them writes the partial.
"""

from __future__ import annotations

import functools

from iree.compiler import ir
from iree.compiler.dialects import arith, scf, tensor, vector

from ..layout import Layout
from ..mlir import DYNAMIC, binary, element_type, index, read, tensor_type, vector_type, write
from ..problem import Problem
from ..targets import Target
from .functions import apply, column_lane, first_column, function, thread_id
from .gpu_lanes import combine_lanes


def write_combine(module: ir.Module, problem: Problem, layout: Layout, target: Target) -> None:
    """Writes `@combine([before,] accumulators, slot) -> partial`.

    accumulators: tensor<[rows x] [1 x] E>, partial: tensor<[rows] [x 1]>; the 1 is the subgroup, there when S > 1. `before`, there
    when K has a tail, are the accumulators as they stood before the last step: columns past K keep them, so that no neutral
    element is needed whatever the step computes. `slot` is the tensor that the partial is written into; where the partial is the
    result itself and its rows are cropped, it is the number of rows left (nothing, if that is a constant).
    """
    element = problem.accumulator
    outer = ([layout.thread_rows] if layout.rows else []) + ([1] if layout.columns.subgroups > 1 else [])
    held = [*outer, layout.columns.elements]
    left = cropped_rows(layout)
    accumulators = tensor_type(held, element)
    partial_type = tensor_type(outer if left is None else [left], element)
    slot = [partial_type] if left is None else [ir.IndexType.get()] if left == DYNAMIC else []
    with function(module, "combine", [accumulators] * (1 + layout.column_tail) + slot, partial_type) as body:
        before, rest = body.arguments[: layout.column_tail], body.arguments[layout.column_tail :]
        zero, thread = index(0), thread_id()
        value = read(rest[0], [zero] * len(held), held, element)
        if before:
            old = read(before[0], [zero] * len(held), held, element)
            value = arith.SelectOp(_inside(layout, held, thread), value, old).result
        totals = [combine_lanes(problem, layout, target, _fold(problem, value, row, held)) for row in range(layout.thread_rows)]
        partial = vector.FromElementsOp(vector_type(outer, element), totals).result
        if left is None:
            body.give(_store(layout, partial, rest[1], thread, outer))
        else:
            target = tensor.EmptyOp([left if left != DYNAMIC else rest[1]], element_type(element)).result
            body.give(_store_cropped(layout, partial, target, thread))


def cropped_rows(layout: Layout) -> int | None:
    """Rows of the partial where it is the result itself, cropped to the array: a constant, DYNAMIC, or None where it is not.

    It is a constant where a thread's first row is: one workgroup, and neither lanes nor subgroups along the rows.
    """
    if layout.rows is None or not layout.row_tail or layout.merges:
        return None
    alone = layout.workgroups == layout.row_lanes == layout.row_subgroups == 1
    return layout.rows.extent if alone else DYNAMIC


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


def _first_lane(layout: Layout, thread: ir.Value) -> ir.Value:
    """Whether the thread is the first of its lanes along the reduced loop, the one that writes."""
    lane = apply(column_lane(layout, ir.AffineSymbolExpr.get(0)), [thread])
    return arith.CmpIOp(arith.CmpIPredicate.eq, lane, index(0)).result


def _store(layout: Layout, partial: ir.Value, slot: ir.Value, thread: ir.Value, outer: list[int]) -> ir.Value:
    indices = [index(0)] * len(outer)
    if layout.columns.lanes == 1:
        return write(partial, slot, indices, in_bounds=True)
    branch = scf.IfOp(_first_lane(layout, thread), [slot.type], has_else=True)
    with ir.InsertionPoint(branch.then_block):
        scf.YieldOp([write(partial, slot, indices, in_bounds=True)])
    with ir.InsertionPoint(branch.else_block):
        scf.YieldOp([slot])
    return branch.results[0]


def _store_cropped(layout: Layout, partial: ir.Value, target: ir.Value, thread: ir.Value) -> ir.Value:
    """One masked store, where a branch around a store of unknown size would be scalar."""
    mask = None
    if layout.columns.lanes > 1:
        first = _first_lane(layout, thread)
        mask = vector.BroadcastOp(ir.VectorType.get([layout.thread_rows], first.type), first).result
    return write(partial, target, [index(0)], in_bounds=False, mask=mask)
