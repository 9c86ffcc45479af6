"""The schedule: a transform-dialect module that IREE runs on every dispatch; it lowers the op with our marker and nothing else."""

from __future__ import annotations

from iree.compiler import ir
from iree.compiler.dialects import transform

from ..dispatch import WORKGROUPS
from ..job import Job, Part
from . import transform_ops as t
from .cpu import CpuSchedule
from .gpu import GpuSchedule

GENERIC = "linalg.generic"


def build_schedule(job: Job) -> ir.Module:
    """The module whose `@__kernel_config` lowers the job's reduction, in the current context."""
    module = ir.Module.create(ir.Location.unknown())
    module.operation.attributes["transform.with_named_sequence"] = ir.UnitAttr.get()
    parts = [(part, GpuSchedule(part) if job.target.is_gpu else CpuSchedule(part)) for part in job.parts]
    with ir.Location.unknown():
        for _, schedule in parts:
            schedule.kernel.write(module)
        with ir.InsertionPoint(module.body):
            entry = transform.NamedSequenceOp("__kernel_config", [t.any_op()], [], arg_attrs=[{"transform.readonly": ir.UnitAttr.get()}])
        with ir.InsertionPoint(entry.body):
            # All are found first: what lowers one, where there is one, ends the handle to the function.
            found = [t.find(entry.bodyTarget, GENERIC, part.stage) for part, _ in parts]
            for (part, schedule), reductions in zip(parts, found, strict=True):
                with t.foreach(reductions) as reduction:
                    function = t.parent(reduction, "func.func")
                    parent = t.parent(function, "builtin.module")
                    _replace(part, schedule.kernel.name, reduction, function, parent)
                    schedule.lower(function, parent)
            transform.YieldOp([])
    # Ops created by name are not verified while they are built: the printed form is parsed again, which verifies it.
    return ir.Module.parse(module.operation.get_asm(print_generic_op_form=True, assume_verified=True))


def _replace(part: Part, kernel: str, reduction: t.Handle, function: t.Handle, module: t.Handle) -> None:
    """Inlines the kernel in the place of the reduction, and of the step after it where there is one."""
    last = t.find(function, GENERIC, "epilogue") if part.problem.has_epilogue else reduction
    taken = range(len(part.problem.results)) if part.problem.has_epilogue else part.problem.taken or ()
    sources = [t.producer(reduction, i) for i in range(len(part.problem.inputs))]
    with t.foreach(last) as op:
        t.inline(kernel, [t.result(source) for source in sources], t.result(op, *taken), op, module)
    t.dce(function)
    if part.layout.workgroups:
        t.populate_workgroup_count(t.find(function, "scf.forall", WORKGROUPS))
