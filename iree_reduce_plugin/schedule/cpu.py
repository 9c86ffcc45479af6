"""The schedule for the CPU: puts its kernel in the place of the reduction, then gives it memory and vectors that LLVM takes."""

from __future__ import annotations

from iree.compiler import ir

from ..job import Part
from . import transform_ops as t
from .cpu_kernel import CpuKernel


class CpuSchedule:
    """Writes the lowering of one reduction; see `GpuSchedule` for the twin."""

    def __init__(self, part: Part):
        self.kernel = CpuKernel(part)
        self.layout = self.kernel.layout

    def lower(self, function: t.Handle, module: t.Handle) -> None:
        """Buffers, and vectors lowered to what LLVM takes."""
        t.eliminate_empty_tensors(function)
        function = t.bufferize(function)
        if self.layout.workgroups:
            t.forall_to_workgroup(function)
        t.apply_patterns(function, "canonicalization")
        t.cse(function)
        t.apply_lowering_patterns(function)
        function = t.find(t.dead_symbols(module), "func.func")
        info = "#iree_codegen.translation_info<pipeline = #iree_codegen.no_pipeline>"
        t.annotate(function, "translation_info", ir.Attribute.parse(info))
