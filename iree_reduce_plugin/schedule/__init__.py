"""The schedule: a transform-dialect module that IREE runs on every dispatch; it lowers the op with our marker and nothing else."""

from __future__ import annotations

from iree.compiler import ir
from iree.compiler.dialects import transform

from ..job import Job
from . import transform_ops as t
from .cpu import CpuSchedule
from .gpu import GpuSchedule
from .workgroups import GENERIC


def build_schedule(job: Job) -> ir.Module:
    """The module whose `@__kernel_config` lowers the job's reduction, in the current context."""
    module = ir.Module.create(ir.Location.unknown())
    module.operation.attributes["transform.with_named_sequence"] = ir.UnitAttr.get()
    schedule = GpuSchedule(job) if job.target.is_gpu else CpuSchedule(job)
    with ir.Location.unknown():
        schedule.write_functions(module)
        with ir.InsertionPoint(module.body):
            entry = transform.NamedSequenceOp("__kernel_config", [t.any_op()], [], arg_attrs=[{"transform.readonly": ir.UnitAttr.get()}])
        with ir.InsertionPoint(entry.body):
            with t.foreach(t.find(entry.bodyTarget, GENERIC, "reduction")) as reduction:
                function = t.parent(reduction, "func.func")
                schedule.lower(reduction, function, t.parent(function, "builtin.module"))
            transform.YieldOp([])
    # Ops created by name are not verified while they are built: the printed form is parsed again, which verifies it.
    return ir.Module.parse(module.operation.get_asm(print_generic_op_form=True, assume_verified=True))
