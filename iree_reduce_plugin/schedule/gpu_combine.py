"""`@combine`: from the accumulators of a thread to the partial result of its subgroup, in the tree's order.

A thread folds its elements in ascending order; the lanes along the reduced loop combine as a balanced tree over ascending lane
bits; the first of them writes the partial.
"""

from __future__ import annotations

import functools

from iree.compiler import ir
from iree.compiler.dialects import arith, scf, tensor, vector

from ..layout import Layout
from ..mlir import DYNAMIC, binary, element_type, index, read, tensor_type, write
from ..problem import Problem
from ..targets import Target
from .functions import apply, chunks, column_lane, first_column, function, thread_id
from .gpu_lanes import combine_lanes


def write_combine(module: ir.Module, problem: Problem, layout: Layout, target: Target) -> None:
    """Writes `@combine([before,] accumulators, slot) -> partial`.

    accumulators: tensor<[rows x] [1 x] E>, partial: tensor<[rows] [x 1]>; the 1 is the subgroup, there when S > 1. `before`, there
    when K has a tail, are the accumulators as they stood before the last step: columns past K keep them, so that no neutral
    element is needed whatever the step computes. `slot` is the tensor that the partial is written into; where the partial is the
    result itself and its rows are cropped, it is the number of rows left (nothing, if that is a constant).
    """
    element, rows = problem.accumulator, [layout.thread_rows] if layout.rows else []
    outer = [*rows, *([1] if layout.columns.subgroups > 1 else [])]
    held = [*outer, layout.columns.elements]
    left = cropped_rows(layout)
    accumulators = tensor_type(held, element)
    partial = tensor_type(outer if left is None else [left], element)
    slot = [partial] if left is None else [ir.IndexType.get()] if left == DYNAMIC else []
    with function(module, "combine", [accumulators] * (1 + layout.column_tail) + slot, partial) as body:
        before, (after, *rest) = body.arguments[: layout.column_tail], body.arguments[layout.column_tail :]
        thread = thread_id()
        values = _scalars(after, problem, layout, target)
        if before:
            values = _keep_past_end(values, _scalars(before[0], problem, layout, target), layout, thread)
        fold = functools.partial(functools.reduce, functools.partial(binary, problem.op.mlir(element)))
        totals = [combine_lanes(problem, layout, target, fold(row)) for row in values]
        if left is None:
            body.give(_store(totals, rest[0], layout, thread))
        else:
            cropped = tensor.EmptyOp([rest[0] if left == DYNAMIC else left], element_type(element)).result
            body.give(_store_cropped(totals, cropped, layout, thread))


def cropped_rows(layout: Layout) -> int | None:
    """Rows of the partial where it is the result itself, cropped to the array: a constant, DYNAMIC, or None where it is not.

    It is a constant where a thread's first row is: one workgroup, and neither lanes nor subgroups along the rows.
    """
    if layout.rows is None or not layout.row_tail or layout.merges:
        return None
    alone = layout.workgroups == layout.row_lanes == layout.row_subgroups == 1
    return layout.rows.extent if alone else DYNAMIC


def _scalars(accumulators: ir.Value, problem: Problem, layout: Layout, target: Target) -> list[list[ir.Value]]:
    """`[rows x] [1 x] E` as one list of E scalars a row, read in vectors that the target takes."""
    middle = [index(0)] * (layout.columns.subgroups > 1)
    rows = []
    for row in range(layout.thread_rows):
        outer = [*([index(row)] if layout.rows else []), *middle]
        scalars = []
        for first, length in chunks(layout.columns.elements, target):
            piece = read(accumulators, [*outer, index(first)], [length], problem.accumulator)
            scalars += [vector.ExtractOp(piece, [], [e]).result for e in range(length)]
        rows.append(scalars)
    return rows


def _keep_past_end(new: list[list[ir.Value]], old: list[list[ir.Value]], layout: Layout, thread: ir.Value) -> list[list[ir.Value]]:
    """`new` where the column, in the last step, lies before K; `old` elsewhere."""
    left = apply(layout.columns.remainder - first_column(layout, ir.AffineSymbolExpr.get(0)), [thread])
    inside = [arith.CmpIOp(arith.CmpIPredicate.slt, index(e), left).result for e in range(layout.columns.elements)]
    select = lambda *scalars: arith.SelectOp(*scalars).result  # noqa: E731
    return [list(map(select, inside, *rows)) for rows in zip(new, old, strict=True)]


def _first_lane(layout: Layout, thread: ir.Value) -> ir.Value:
    """Whether the thread is the first of its lanes along the reduced loop, the one that writes."""
    lane = apply(column_lane(layout, ir.AffineSymbolExpr.get(0)), [thread])
    return arith.CmpIOp(arith.CmpIPredicate.eq, lane, index(0)).result


def _store(totals: list[ir.Value], slot: ir.Value, layout: Layout, thread: ir.Value) -> ir.Value:
    """Writes one total a row, by the first lane: as one vector of rows, or row by row where the partial has a place for its subgroup."""
    if layout.columns.lanes == 1:
        return _write_rows(totals, slot, layout)
    branch = scf.IfOp(_first_lane(layout, thread), [slot.type], has_else=True)
    with ir.InsertionPoint(branch.then_block):
        scf.YieldOp([_write_rows(totals, slot, layout)])
    with ir.InsertionPoint(branch.else_block):
        scf.YieldOp([slot])
    return branch.results[0]


def _write_rows(totals: list[ir.Value], slot: ir.Value, layout: Layout) -> ir.Value:
    if layout.rows is None and layout.columns.subgroups == 1:
        return tensor.InsertOp(totals[0], slot, []).result
    if layout.columns.subgroups == 1:
        return write(_vector(totals), slot, [index(0)], in_bounds=True)
    for row, total in enumerate(totals):
        slot = write(_vector([total]), slot, [*([index(row)] if layout.rows else []), index(0)], in_bounds=True)
    return slot


def _vector(scalars: list[ir.Value]) -> ir.Value:
    return vector.FromElementsOp(ir.VectorType.get([len(scalars)], scalars[0].type), scalars).result


def _store_cropped(totals: list[ir.Value], cropped: ir.Value, layout: Layout, thread: ir.Value) -> ir.Value:
    """One masked store, where a branch around a store of unknown size would be scalar."""
    mask = None
    if layout.columns.lanes > 1:
        first = _first_lane(layout, thread)
        mask = vector.BroadcastOp(ir.VectorType.get([layout.thread_rows], first.type), first).result
    return write(_vector(totals), cropped, [index(0)], in_bounds=False, mask=mask)
