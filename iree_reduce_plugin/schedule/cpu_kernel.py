"""The payload of the schedule for the CPU: the tuning's tree on one core, a workgroup's results one after the other.

There are no subgroups and lanes to distribute to: they are places among the S * L * E accumulators of a result. Where K is innermost in
memory, those lie along vectors (`cpu_rows.py`); where a kept loop is, vectors lie along it (`cpu_inner.py`).
"""

from __future__ import annotations

from iree.compiler import ir
from iree.compiler.dialects import scf

from ..job import Part
from ..layout import Tile
from ..loops import INNER, ROWS
from ..mlir import index
from .cpu_inner import CpuInner
from .cpu_rows import CpuRows
from .kernel import Ids, Kernel, Outs
from .loads import Arrays, contiguous
from .payload import apply, clamp, symbol


class CpuKernel(Kernel):
    """A workgroup's results, row by row."""

    def __init__(self, part: Part):
        super().__init__(part)
        self.results: CpuRows | CpuInner = CpuInner(part) if contiguous(part.problem) == INNER else CpuRows(part)

    def workgroup(self, x: Arrays, group: Ids, outs: Outs) -> Outs:
        return self.rows(x, group, outs) if ROWS in group else self.results.write(x, group, outs)

    def rows(self, x: Arrays, group: Ids, outs: Outs) -> Outs:
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
