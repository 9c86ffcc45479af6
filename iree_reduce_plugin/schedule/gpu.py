"""The schedule for SIMT targets: puts the kernel (`gpu_kernel.py`) in the place of the reduction, then maps its loops to the hardware."""

from __future__ import annotations

from iree.compiler import ir

from ..job import Part
from . import transform_ops as t
from .gpu_kernel import GpuKernel


class GpuSchedule:
    """Writes the lowering of one reduction."""

    def __init__(self, part: Part):
        self.kernel = GpuKernel(part)
        self.layout = self.kernel.layout

    def lower(self, function: t.Handle, module: t.Handle) -> None:
        """Loops, memory, thread ids, the barrier."""
        t.eliminate_empty_tensors(function)
        function = t.bufferize_gpu(function)
        if self.layout.workgroups:
            t.forall_to_workgroup(function)
        t.map_to_threads(function, self.layout.workgroup_size, self.layout.subgroup_size)
        t.apply_patterns(function, "canonicalization")
        t.cse(function)
        t.apply_patterns(function, "canonicalization")
        function = t.find(t.dead_symbols(module), "func.func")
        info = "#iree_codegen.translation_info<pipeline = #iree_codegen.no_pipeline workgroup_size = [{}, 1, 1] subgroup_size = {}>"
        t.annotate(function, "translation_info", ir.Attribute.parse(info.format(self.layout.workgroup_size, self.layout.subgroup_size)))
