"""`@load` and `@load_last`: what a thread reads of one step where tiles don't divide the array.

Padding gives the schedule whole tiles to work on; nothing is ever read from the padding. A thread reads the unpadded input by
its own ids. An index past the end is clamped to the last element: what it reads is discarded later (rows by the cropped store,
columns by `@combine`), and no access leaves the array.
"""

from __future__ import annotations

from iree.compiler import ir
from iree.compiler.dialects import tensor, vector

from ..layout import Layout
from ..mlir import element_type, index, read, tensor_type, vector_type, write
from ..problem import Problem
from ..targets import Target
from .functions import apply, chunks, clamp, first_column, first_row, function, thread_id, workgroup_id


def write_loads(module: ir.Module, problem: Problem, layout: Layout, target: Target) -> None:
    """Writes the loads that the layout needs: `@load(source, step)` for whole steps, `@load_last(source)` for the partial one."""
    if layout.full_steps:
        _write_load(module, problem, layout, target)
    if layout.column_tail:
        _write_load_last(module, problem, layout, target)


def _write_load(module: ir.Module, problem: Problem, layout: Layout, target: Target) -> None:
    """Whole vectors along the columns."""
    held = _held(layout)
    with function(module, "load", [_source_type(problem), ir.IndexType.get()], tensor_type(held, problem.input)) as body:
        x, step = body.arguments
        s0, s1 = ir.AffineSymbolExpr.get(0), ir.AffineSymbolExpr.get(1)
        thread = thread_id()
        pieces = []
        for first, length in chunks(layout.columns.elements, target):
            column = apply(s0 * layout.columns.size + first_column(layout, s1) + first, [step, thread])
            pieces += [(row, first, read(x, [*at, column], [length], problem.input)) for row, at in enumerate(_rows(layout, thread))]
        body.give(_as_tensor(pieces, held, problem, layout))


def _write_load_last(module: ir.Module, problem: Problem, layout: Layout, target: Target) -> None:
    """Element by element: the columns past K are spread over the lanes, and need not be a whole vector."""
    held = _held(layout)
    with function(module, "load_last", [_source_type(problem)], tensor_type(held, problem.input)) as body:
        (x,) = body.arguments
        thread, s0 = thread_id(), ir.AffineSymbolExpr.get(0)
        base = layout.full_steps * layout.columns.size
        columns = [clamp(first_column(layout, s0) + (base + e), problem.columns - 1, [thread]) for e in range(layout.columns.elements)]
        pieces = []
        for row, at in enumerate(_rows(layout, thread)):
            for first, length in chunks(layout.columns.elements, target):
                scalars = [tensor.ExtractOp(x, [*at, column]).result for column in columns[first : first + length]]
                pieces.append((row, first, vector.FromElementsOp(vector_type([length], problem.input), scalars).result))
        body.give(_as_tensor(pieces, held, problem, layout))


def _source_type(problem: Problem) -> ir.Type:
    return tensor_type(problem.loops, problem.input)


def _held(layout: Layout) -> list[int]:
    """Shape of what a thread holds of one step: [rows], the step, [the subgroup], elements; for one column a step, [rows], the step."""
    rows = [layout.thread_rows] if layout.rows else []
    if layout.columns.size == 1:
        return [*rows, 1]
    return [*rows, 1, *([1] if layout.columns.subgroups > 1 else []), layout.columns.elements]


def _rows(layout: Layout, thread: ir.Value) -> list[list[ir.Value]]:
    """The row index of each of the thread's rows; one empty index for a 1-D problem."""
    if layout.rows is None:
        return [[]]
    s0, s1 = ir.AffineSymbolExpr.get(0), ir.AffineSymbolExpr.get(1)
    row = s0 * layout.row_tile + first_row(layout, s1)
    ids = [workgroup_id(), thread]
    last = layout.rows.extent - 1
    return [[clamp(row + r, last, ids) if layout.row_tail else apply(row + r, ids)] for r in range(layout.thread_rows)]


def _as_tensor(pieces: list[tuple[int, int, ir.Value]], held: list[int], problem: Problem, layout: Layout) -> ir.Value:
    """The tensor that the step expects, made of vectors (row, first element, vector)."""
    whole = tensor.EmptyOp(held, element_type(problem.input)).result
    middle = [index(0)] * (len(held) - 1 - bool(layout.rows))
    for row, first, piece in pieces:
        whole = write(piece, whole, [*([index(row)] if layout.rows else []), *middle, index(first)], in_bounds=True)
    return whole
