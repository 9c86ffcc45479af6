"""Writing the payload that a schedule inlines: a function, loops, and arithmetic on indices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from iree.compiler import ir
from iree.compiler.dialects import affine, scf, tensor, util, vector

from ..loops import Dimension
from ..mlir import DYNAMIC, index, write


@contextmanager
def function(module: ir.Module, name: str, inputs: Sequence[ir.Type], outputs: Sequence[ir.Type]) -> Iterator[list[ir.Value]]:
    """A private `util.func @name(inputs) -> outputs` at the end of the module; the body is written inside the `with`."""
    with ir.InsertionPoint(module.body):
        signature = ir.TypeAttr.get(ir.FunctionType.get(list(inputs), list(outputs)))
        op = util.FuncOp(name, signature, sym_visibility="private")
        block = op.regions[0].blocks.append(*inputs)
    with ir.InsertionPoint(block):
        yield list(block.arguments)


def give(values: Sequence[ir.Value]) -> None:
    util.ReturnOp(list(values))


class Forall:
    """An `scf.forall` being written. Tiles may overlap, so a body takes the whole results and gives them back written to."""

    def __init__(self, op: scf.ForallOp):
        self.operation = op.operation
        self.indices = list(op.induction_variables)
        self._outs = list(op.inner_iter_args)
        self.whole = [tensor.ExtractSliceOp(out.type, out, *self._all(out)).result for out in self._outs]

    def give(self, whole: Sequence[ir.Value]) -> None:
        places = [self._all(out) for out in self._outs]
        end = scf.InParallelOp()
        with ir.InsertionPoint(end.region.blocks[0] if len(end.region.blocks) else end.region.blocks.append()):
            for value, out, place in zip(whole, self._outs, places, strict=True):
                tensor.ParallelInsertSliceOp(value, out, *place)

    @staticmethod
    def _all(out: ir.Value) -> tuple[list[ir.Value], list[ir.Value], list[ir.Value], list[int], list[int], list[int]]:
        shape = list(ir.RankedTensorType(out.type).shape)
        return [index(0)] * len(shape), [], [], [DYNAMIC] * len(shape), shape, [1] * len(shape)


@contextmanager
def forall(counts: Sequence[int], mapping: Sequence[str], outs: Sequence[ir.Value]) -> Iterator[Forall]:
    """A loop over the counts, mapped as named, e.g. `#gpu.warp<linear_dim_0>`, that makes `outs`; its body ends with `give`."""
    attributes = ir.ArrayAttr.get([ir.Attribute.parse(m) for m in mapping])
    op = scf.ForallOp([0] * len(counts), list(counts), [1] * len(counts), list(outs), mapping=attributes)
    with ir.InsertionPoint(op.body):
        yield Forall(op)


def results(loop: Forall) -> list[ir.Value]:
    return list(loop.operation.results)


def put(scalars: Sequence[ir.Value], target: ir.Value, at: Sequence[ir.Value]) -> ir.Value:
    """The tensor with these scalars, side by side along its last dimension from `at` on."""
    if not at:
        return tensor.InsertOp(scalars[0], target, []).result
    line = vector.FromElementsOp(ir.VectorType.get([len(scalars)], scalars[0].type), list(scalars)).result
    return write(line, target, at, in_bounds=True)


def indices(dimensions: Sequence[Dimension], at: Mapping[str, ir.Value]) -> list[ir.Value]:
    """One index for each dimension of memory, of the point at these indices of the canonical loops: a flattened loop's is taken apart."""
    found, seen = [], set()
    for dimension in dimensions:
        loop = at[dimension.loop]
        expression = symbol(0)
        if dimension.step > 1:
            expression = ir.AffineExpr.get_floor_div(expression, dimension.step)
        if dimension.loop in seen:
            expression = expression % dimension.extent
        seen.add(dimension.loop)
        found.append(loop if expression == symbol(0) else apply(expression, [loop]))
    return found


def moved(at: Mapping[str, ir.Value], by: Mapping[str, int]) -> dict[str, ir.Value]:
    """The indices, those of the named loops that many further."""
    return {name: apply(symbol(0) + by[name], [value]) if by.get(name) else value for name, value in at.items()}


def symbol(position: int) -> ir.AffineExpr:
    return ir.AffineSymbolExpr.get(position)


def apply(expression: ir.AffineExpr, symbols: Sequence[ir.Value]) -> ir.Value:
    """The value of an affine expression over symbols s0, s1, ..."""
    return affine.AffineApplyOp(ir.AffineMap.get(0, len(symbols), [expression]), list(symbols)).result


def clamp(expression: ir.AffineExpr, limit: int, symbols: Sequence[ir.Value]) -> ir.Value:
    """The smaller of the expression and `limit`."""
    bounds = [expression, ir.AffineConstantExpr.get(limit)]
    return affine.AffineMinOp(ir.AffineMap.get(0, len(symbols), bounds), list(symbols)).result


def vector_length(elements: int, most: int | None) -> int:
    """The longest vector of at most `most` elements that cuts `elements` into equal parts."""
    limit = min(elements, most or elements)
    return max(length for length in range(1, limit + 1) if elements % length == 0)


def chunks(elements: int, most: int | None) -> list[tuple[int, int]]:
    """(first element, length) of the vectors that hold `elements`."""
    length = vector_length(elements, most)
    return [(first, length) for first in range(0, elements, length)]
