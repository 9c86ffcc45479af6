"""Writing the small functions that a schedule inlines into the payload."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from iree.compiler import ir
from iree.compiler.dialects import affine, gpu, util

from ..layout import Layout
from ..targets import Target


class Body:
    """The function being written: its arguments, and `give`, which ends it."""

    def __init__(self, arguments: Sequence[ir.Value]):
        self.arguments = list(arguments)

    def give(self, value: ir.Value) -> None:
        util.ReturnOp([value])


@contextmanager
def function(module: ir.Module, name: str, inputs: Sequence[ir.Type], output: ir.Type) -> Iterator[Body]:
    """A private `util.func @name(inputs) -> output` at the end of the module; the body is written inside the `with`."""
    with ir.InsertionPoint(module.body):
        signature = ir.TypeAttr.get(ir.FunctionType.get(list(inputs), [output]))
        op = util.FuncOp(name, signature, sym_visibility="private")
        block = op.regions[0].blocks.append(*inputs)
    with ir.InsertionPoint(block):
        yield Body(block.arguments)


def vector_length(elements: int, target: Target) -> int:
    """The longest vector that the target takes and that cuts `elements` into equal parts."""
    most = min(elements, target.vector_elements or elements)
    return max(length for length in range(1, most + 1) if elements % length == 0)


def chunks(elements: int, target: Target) -> list[tuple[int, int]]:
    """(first element, length) of the vectors that hold `elements`."""
    length = vector_length(elements, target)
    return [(first, length) for first in range(0, elements, length)]


def thread_id() -> ir.Value:
    return gpu.ThreadIdOp(ir.Attribute.parse("#gpu<dim<x>>")).result


def workgroup_id() -> ir.Value:
    name = "hal.interface.workgroup.id"
    dimension = ir.IntegerAttr.get(ir.IndexType.get(), 0)
    return ir.Operation.create(name, results=[ir.IndexType.get()], attributes={"dimension": dimension}).result


def apply(expression: ir.AffineExpr, symbols: Sequence[ir.Value]) -> ir.Value:
    """The value of an affine expression over symbols s0, s1, ..."""
    return affine.AffineApplyOp(ir.AffineMap.get(0, len(symbols), [expression]), list(symbols)).result


def clamp(expression: ir.AffineExpr, limit: int, symbols: Sequence[ir.Value]) -> ir.Value:
    """The smaller of the expression and `limit`."""
    bounds = [expression, ir.AffineConstantExpr.get(limit)]
    return affine.AffineMinOp(ir.AffineMap.get(0, len(symbols), bounds), list(symbols)).result


# Where a thread is: affine expressions of its id. The id counts lanes fastest, then subgroups; within each, the reduced loop fastest.


def column_lane(layout: Layout, thread: ir.AffineExpr) -> ir.AffineExpr:
    return thread % layout.columns.lanes


def column_subgroup(layout: Layout, thread: ir.AffineExpr) -> ir.AffineExpr:
    return ir.AffineExpr.get_floor_div(thread, layout.subgroup_size) % layout.columns.subgroups


def first_column(layout: Layout, thread: ir.AffineExpr) -> ir.AffineExpr:
    """The first column that the thread reads of a step, counted from the step's first."""
    position = column_subgroup(layout, thread) * layout.columns.lanes + column_lane(layout, thread)
    return position * layout.columns.elements


def first_row(layout: Layout, thread: ir.AffineExpr) -> ir.AffineExpr:
    """The thread's first row, counted from the workgroup's first."""
    subgroup = ir.AffineExpr.get_floor_div(thread, layout.subgroup_size * layout.columns.subgroups)
    lane = ir.AffineExpr.get_floor_div(thread % layout.subgroup_size, layout.columns.lanes)
    return (subgroup * layout.row_lanes + lane) * layout.thread_rows
