"""Compiles a job by a schedule with one thing broken: `python mutant.py MUTATION < pickled job > vmfb`. In a process of its own."""

from __future__ import annotations

import pickle
import sys

from iree_reduce_plugin import backend, problem
from iree_reduce_plugin.schedule import arithmetic, gpu_kernel, gpu_lanes, held


def barrier_removed():
    gpu_kernel.gpu = type("Dialect", (), {"BarrierOp": staticmethod(lambda: None)})


def lane_order_swapped():
    """The highest bit first: the same lanes, another tree."""

    def butterfly(the_problem, target, layout, value):
        width = gpu_lanes.constant_i32(layout.subgroup_size)
        for bit in reversed(range(layout.columns.lanes.bit_length() - 1)):
            mask = gpu_lanes.constant_i32(layout.columns.lane_stride << bit)
            other = tuple(gpu_lanes._shuffle(one, mask, width, the_problem.accumulator) for one in value)
            value = gpu_lanes.combine(the_problem, target, value, other)
        return value

    gpu_lanes._butterfly = butterfly


def tail_not_masked():
    held.Held._is_before = staticmethod(lambda column, end: held.arith.CmpIOp(held.arith.CmpIPredicate.sge, column, held.index(0)).result)


def only_one_subgroup_writes():
    lines = gpu_kernel.GpuKernel._partial_lines
    gpu_kernel.GpuKernel._partial_lines = lambda self, subgroup, lane: lines(
        self, {name: gpu_kernel.index(0) if name == "K" else value for name, value in subgroup.items()}, lane
    )


def wrong_identity():
    arithmetic.start = lambda the_problem, target, length: (arithmetic.splat(1, length, the_problem.accumulator),)


def nothing():
    """No mutation: the schedule as it is."""


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    job = pickle.load(sys.stdin.buffer)
    assert isinstance(job.problem, problem.Problem)
    vmfb, _ = backend.make(job, "artifact", None)
    sys.stdout.buffer.write(vmfb)
