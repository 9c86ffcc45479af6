"""The payload of the schedule for the CPU: the tuning's tree on one core, a workgroup's results one after the other.

There are no subgroups and lanes to distribute to: they are places among the S * L * E accumulators of a result. Where K is innermost in
memory, those lie along vectors (`cpu_rows.py`); where a kept loop is, vectors lie along it (`cpu_inner.py`).
"""

from __future__ import annotations

from iree.compiler import ir
from iree.compiler.dialects import scf, tensor

from ..dispatch import STAGE, WORKGROUPS
from ..job import Job
from ..layout import Tile
from ..loops import INNER, ROWS
from ..mlir import element_type, index, tensor_type
from .cpu_inner import CpuInner
from .cpu_rows import CpuRows
from .loads import contiguous
from .payload import apply, clamp, forall, function, give, results, symbol


class CpuKernel:
    """Writes `@kernel(array) -> result` of one job."""

    def __init__(self, job: Job):
        layout = job.layout
        if layout is None:
            raise ValueError("a schedule needs a tuning")
        self.problem, self.layout = job.problem, layout
        self.extents = [d.extent for d in job.problem.result_memory]
        self.results: CpuRows | CpuInner = CpuInner(job) if contiguous(job.problem) == INNER else CpuRows(job)

    def write(self, module: ir.Module) -> None:
        source = tensor_type(self.problem.memory_shape, self.problem.input)
        kinds = [tensor_type(self.extents, result) for result in self.problem.results]
        with function(module, "kernel", [source], kinds) as (x,):
            give(self.workgroups(x, [tensor.EmptyOp(self.extents, element_type(result)).result for result in self.problem.results]))

    def workgroups(self, x: ir.Value, outs: list[ir.Value]) -> list[ir.Value]:
        counts, kept = self.layout.workgroups, self.layout.kept
        if not counts:
            return self.results.write(x, {}, outs)
        with forall(counts, [f"#gpu.block<{axis}>" for axis in "zyx"[-len(counts) :]], outs) as loop:
            loop.operation.attributes[STAGE] = ir.StringAttr.get(WORKGROUPS)
            group = dict(zip(kept, loop.indices, strict=True))
            loop.give(self.rows(x, group, loop.whole) if ROWS in kept else self.results.write(x, group, loop.whole))
        return results(loop)

    def rows(self, x: ir.Value, group: dict[str, ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
        """The workgroup's rows, one after the other; the last workgroup may have fewer."""
        tile = self.layout.rows
        first = apply(symbol(0) * tile.size, [group[ROWS]])
        loop = scf.ForOp(first, _end(tile, group[ROWS]), index(1), outs)
        with ir.InsertionPoint(loop.body):
            row = {**group, ROWS: loop.induction_variable}
            scf.YieldOp(self.results.write(x, row, list(loop.inner_iter_args)))
        return list(loop.results)


def _end(tile: Tile, workgroup: ir.Value) -> ir.Value:
    end = (symbol(0) + 1) * tile.size
    return clamp(end, tile.extent, [workgroup]) if tile.remainder else apply(end, [workgroup])
