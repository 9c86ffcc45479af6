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
        kind = tensor_type(self.extents, self.problem.result)
        with function(module, "kernel", [source], [kind]) as (x,):
            out = tensor.EmptyOp(self.extents, element_type(self.problem.result)).result
            give([self.workgroups(x, out)])

    def workgroups(self, x: ir.Value, out: ir.Value) -> ir.Value:
        counts, kept = self.layout.workgroups, self.layout.kept
        if not counts:
            return self.results.write(x, {}, out)
        with forall(counts, [f"#gpu.block<{axis}>" for axis in "zyx"[-len(counts) :]], [out]) as loop:
            loop.operation.attributes[STAGE] = ir.StringAttr.get(WORKGROUPS)
            group = dict(zip(kept, loop.indices, strict=True))
            (whole,) = loop.whole
            loop.give([self.rows(x, group, whole) if ROWS in kept else self.results.write(x, group, whole)])
        return results(loop)[0]

    def rows(self, x: ir.Value, group: dict[str, ir.Value], out: ir.Value) -> ir.Value:
        """The workgroup's rows, one after the other; the last workgroup may have fewer."""
        tile = self.layout.rows
        first = apply(symbol(0) * tile.size, [group[ROWS]])
        loop = scf.ForOp(first, _end(tile, group[ROWS]), index(1), [out])
        with ir.InsertionPoint(loop.body):
            row = {**group, ROWS: loop.induction_variable}
            scf.YieldOp([self.results.write(x, row, loop.inner_iter_args[0])])
        return loop.results[0]


def _end(tile: Tile, workgroup: ir.Value) -> ir.Value:
    end = (symbol(0) + 1) * tile.size
    return clamp(end, tile.extent, [workgroup]) if tile.remainder else apply(end, [workgroup])
