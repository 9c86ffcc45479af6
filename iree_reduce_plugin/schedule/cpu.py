"""The schedule for the CPU: the tuning's summation tree on one core's vector registers. Each stage is one method:

workgroup    rows -> workgroups, one row at a time within them
steps        K -> steps of S * L * E columns, with as many accumulators; the last, partial step peeled off
combine      the accumulators -> the row's total, in the tree's order (see `cpu_combine`)
blocks       more accumulators than the registers hold: a step at a time, block by block
vectors      accumulators in registers across the steps
memory       buffers, and vectors lowered to what LLVM takes
"""

from __future__ import annotations

from iree.compiler import ir

from ..job import Job
from . import transform_ops as t
from .cpu_combine import write_combine
from .start import inline_start, write_start
from .workgroups import GENERIC, to_workgroups

REGISTER_BYTES = 1024  # of accumulators kept in registers across steps
BLOCK = 64  # accumulators to a block where they are not
LOOPS = ("linalg.tiling_canonicalization", "scf.for_loop_canonicalization", "canonicalization")


class CpuSchedule:
    """Writes the lowering of one reduction; see `GpuSchedule` for the twin."""

    def __init__(self, job: Job):
        layout = job.layout
        if layout is None:
            raise ValueError("a schedule needs a tuning")
        self.problem, self.layout = job.problem, layout
        self.k = 1 if layout.rows else 0  # position of the reduced loop
        self.epilogue = job.problem.has_epilogue
        self.blocked = layout.columns.size * layout.accumulator_bytes > REGISTER_BYTES

    def write_functions(self, module: ir.Module) -> None:
        write_start(module, self.problem)
        write_combine(module, self.problem, self.layout)

    def lower(self, reduction: t.Handle, function: t.Handle, module: t.Handle) -> None:
        """The whole lowering of the function that holds the reduction."""
        self.function, self.module = function, module
        if self.layout.rows:
            reduction = self.workgroup(reduction)
        loop = self.steps(reduction)
        if self.layout.column_tail and self.layout.full_steps:
            t.peel(loop)
        if self.blocked:
            self.blocks()
        self.memory(self.vectors())

    def workgroup(self, reduction: t.Handle) -> t.Handle:
        """Gives the reduction of one row."""
        reduction, _, _ = to_workgroups(self.function, self.layout, reduction, epilogue=self.epilogue)
        if self.layout.row_tile > 1:
            reduction, _ = t.tile_to_for(reduction, [1, 0])
        return reduction

    def steps(self, reduction: t.Handle) -> t.Handle:
        fill, merge, loop = t.tile_reduction_to_for(reduction, [0] * self.k + [self.layout.columns.size])
        inline_start(self.problem, fill, self.module)
        with t.foreach(merge) as op:
            t.inline("combine", [t.operand(op, 0), t.operand(op, 1)], t.result(op), op, self.module)
        return loop

    def blocks(self) -> None:
        t.apply_patterns(self.function, *LOOPS)
        t.cse(self.function)
        with t.foreach(t.find(self.function, GENERIC, "reduction")) as step:
            t.tile_to_for(step, [0] * self.k + [BLOCK])

    def vectors(self) -> t.Handle:
        t.apply_patterns(self.function, *LOOPS, "linalg.fold_unit_extent_dims_via_slices")
        t.cse(self.function)
        function = t.vectorize(self.function)
        t.apply_patterns(function, "vector.cast_away_vector_leading_one_dim", "canonicalization")
        t.hoist_subsets(t.find(function, "scf.for"))
        t.apply_patterns(function, "canonicalization")
        t.cse(function)
        return function

    def memory(self, function: t.Handle) -> None:
        t.eliminate_empty_tensors(function)
        function = t.bufferize(function)
        if self.layout.rows:
            t.forall_to_workgroup(function)
        t.apply_inner_reduction_patterns(function)
        t.apply_lowering_patterns(function)
        function = t.find(t.dead_symbols(self.module), "func.func")
        info = "#iree_codegen.translation_info<pipeline = #iree_codegen.no_pipeline>"
        t.annotate(function, "translation_info", ir.Attribute.parse(info))
