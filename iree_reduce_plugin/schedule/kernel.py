"""What the kernels of all targets begin with: the function `@kernel`, and its kept loops spread over workgroups."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping

from iree.compiler import ir
from iree.compiler.dialects import arith, scf, tensor

from ..dispatch import STAGE, WORKGROUPS
from ..job import Part
from ..layout import Layout
from ..loops import PIECES
from ..mlir import element_type, index, tensor_type
from .loads import Arrays
from .payload import apply, clamp, forall, function, give, results, symbol

Ids = dict[str, ir.Value]  # an index for each loop
Outs = list[ir.Value]  # tensors: the results, or the partials, one for each accumulator


class Kernel(abc.ABC):
    """Writes `@kernel(arrays) -> results` of one part of a job; what a workgroup does is its target's."""

    def __init__(self, part: Part):
        self.problem, self.target, self.layout = part.problem, part.target, part.layout
        self.name = "merge" if part.stage == "merge" else "kernel"

    def write(self, module: ir.Module) -> None:
        problem, extents = self.problem, [d.extent for d in self.problem.result_memory]
        sources = [tensor_type(problem.memory_shape, element) for element in problem.inputs]
        kinds = [tensor_type(extents, result) for result in problem.results]
        with function(module, self.name, sources, kinds) as x:
            give(self.workgroups(x, [tensor.EmptyOp(extents, element_type(result)).result for result in problem.results]))

    def workgroups(self, x: Arrays, outs: Outs) -> Outs:
        counts = self.layout.workgroups
        if not counts:
            return self.workgroup(x, {}, outs)
        with forall(counts, [f"#gpu.block<{axis}>" for axis in "zyx"[-len(counts) :]], outs) as loop:
            loop.operation.attributes[STAGE] = ir.StringAttr.get(WORKGROUPS)
            loop.give(self.workgroup(x, dict(zip(self.layout.numbered, loop.indices, strict=True)), loop.whole))
        return results(loop)

    @abc.abstractmethod
    def workgroup(self, x: Arrays, group: Ids, outs: Outs) -> Outs:
        """`outs` with the results of one workgroup in them. group: the workgroup's number along each kept loop,
        and that of its piece of K."""


def rounds(layout: Layout, group: Mapping[str, ir.Value], steps: int) -> tuple[ir.Value, ir.Value]:
    """The rounds of `steps` whole steps that a workgroup takes: the first, and the one after the last."""
    whole = layout.full_steps // steps
    if PIECES not in group:
        return index(0), index(whole)
    each, piece = layout.piece_steps // steps, [group[PIECES]]
    end = (symbol(0) + 1) * each
    return apply(symbol(0) * each, piece), apply(end, piece) if layout.pieces * each == whole else clamp(end, whole, piece)


def at_the_end(
    layout: Layout, group: Mapping[str, ir.Value], carried: list[ir.Value], body: Callable[[list[ir.Value]], list[ir.Value]]
) -> list[ir.Value]:
    """`body(carried)` in the workgroup that has the end of K."""
    if PIECES not in group:
        return body(carried)
    is_last = arith.CmpIOp(arith.CmpIPredicate.eq, group[PIECES], index(layout.pieces - 1)).result
    branch = scf.IfOp(is_last, [value.type for value in carried], has_else=True)
    with ir.InsertionPoint(branch.then_block):
        scf.YieldOp(body(carried))
    with ir.InsertionPoint(branch.else_block):
        scf.YieldOp(carried)
    return list(branch.results)
