"""The schedule: a transform-dialect module that IREE runs on every dispatch; it lowers the op with our marker and nothing else."""

from __future__ import annotations

from iree.compiler import ir
from iree.compiler.dialects import transform

from ..dispatch import WORKGROUPS
from ..job import Job
from . import transform_ops as t
from .cpu import CpuSchedule
from .gpu import GpuSchedule

GENERIC = "linalg.generic"


def build_schedule(job: Job) -> ir.Module:
    """The module whose `@__kernel_config` lowers the job's reduction, in the current context."""
    module = ir.Module.create(ir.Location.unknown())
    module.operation.attributes["transform.with_named_sequence"] = ir.UnitAttr.get()
    schedule = GpuSchedule(job) if job.target.is_gpu else CpuSchedule(job)
    with ir.Location.unknown():
        schedule.kernel.write(module)
        with ir.InsertionPoint(module.body):
            entry = transform.NamedSequenceOp("__kernel_config", [t.any_op()], [], arg_attrs=[{"transform.readonly": ir.UnitAttr.get()}])
        with ir.InsertionPoint(entry.body):
            with t.foreach(t.find(entry.bodyTarget, GENERIC, "reduction")) as reduction:
                function = t.parent(reduction, "func.func")
                parent = t.parent(function, "builtin.module")
                _replace(job, reduction, function, parent)
                schedule.lower(function, parent)
            transform.YieldOp([])
    # Ops created by name are not verified while they are built: the printed form is parsed again, which verifies it.
    return ir.Module.parse(module.operation.get_asm(print_generic_op_form=True, assume_verified=True))


def _replace(job: Job, reduction: t.Handle, function: t.Handle, module: t.Handle) -> None:
    """Inlines the kernel in the place of the reduction, and of the step after it where there is one."""
    last = t.find(function, GENERIC, "epilogue") if job.problem.has_epilogue else reduction
    taken = range(len(job.problem.results)) if job.problem.has_epilogue else job.problem.taken or ()
    sources = [t.producer(reduction, i) for i in range(len(job.problem.inputs))]
    with t.foreach(last) as op:
        t.inline("kernel", [t.result(source) for source in sources], t.result(op, *taken), op, module)
    t.dce(function)
    if job.planned_layout.kept:
        t.populate_workgroup_count(t.find(function, "scf.forall", WORKGROUPS))
