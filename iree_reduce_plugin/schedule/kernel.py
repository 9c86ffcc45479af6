"""What the kernels of all targets begin with: the function `@kernel`, and its kept loops spread over workgroups."""

from __future__ import annotations

import abc

from iree.compiler import ir
from iree.compiler.dialects import tensor

from ..dispatch import STAGE, WORKGROUPS
from ..job import Job
from ..mlir import element_type, tensor_type
from .loads import Arrays
from .payload import forall, function, give, results

Ids = dict[str, ir.Value]  # an index for each loop
Outs = list[ir.Value]  # tensors: the results, or the partials, one for each accumulator


class Kernel(abc.ABC):
    """Writes `@kernel(arrays) -> results` of one job; what a workgroup does is its target's."""

    def __init__(self, job: Job):
        self.problem, self.target, self.layout = job.problem, job.target, job.planned_layout

    def write(self, module: ir.Module) -> None:
        problem, extents = self.problem, [d.extent for d in self.problem.result_memory]
        sources = [tensor_type(problem.memory_shape, element) for element in problem.inputs]
        kinds = [tensor_type(extents, result) for result in problem.results]
        with function(module, "kernel", sources, kinds) as x:
            give(self.workgroups(x, [tensor.EmptyOp(extents, element_type(result)).result for result in problem.results]))

    def workgroups(self, x: Arrays, outs: Outs) -> Outs:
        counts = self.layout.workgroups
        if not counts:
            return self.workgroup(x, {}, outs)
        with forall(counts, [f"#gpu.block<{axis}>" for axis in "zyx"[-len(counts) :]], outs) as loop:
            loop.operation.attributes[STAGE] = ir.StringAttr.get(WORKGROUPS)
            loop.give(self.workgroup(x, dict(zip(self.layout.kept, loop.indices, strict=True)), loop.whole))
        return results(loop)

    @abc.abstractmethod
    def workgroup(self, x: Arrays, group: Ids, outs: Outs) -> Outs:
        """`outs` with the results of one workgroup in them. group: the workgroup's number along each kept loop."""
