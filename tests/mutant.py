"""Compiles a job by a schedule with one thing broken: `python mutant.py MUTATION < pickled job > vmfb`. In a process of its own."""

from __future__ import annotations

import pickle
import sys

from iree.compiler import ir

from iree_reduce_plugin import backend, mlir, problem
from iree_reduce_plugin.schedule import gpu_combine, gpu_lanes, start, transform_ops


def barrier_removed():
    create = transform_ops._create

    def without(name, *arguments, **attributes):
        if name == "transform.iree.map_nested_forall_to_gpu_threads":
            attributes["sync_after_distribution"] = ir.BoolAttr.get(False)
        return create(name, *arguments, **attributes)

    transform_ops._create = without


def lane_order_swapped():
    """The highest bit first: the same lanes, another tree."""

    def butterfly(the_problem, layout, value):
        width = gpu_lanes._i32(layout.subgroup_size)
        for bit in reversed(range(layout.columns.lanes.bit_length() - 1)):
            other = gpu_lanes._shuffle(value, gpu_lanes._i32(1 << bit), width, the_problem.accumulator)
            value = mlir.binary(the_problem.op.mlir(the_problem.accumulator), value, other)
        return value

    gpu_lanes._butterfly = butterfly


def tail_not_masked():
    gpu_combine._keep_past_end = lambda new, old, layout, thread: new


def only_one_subgroup_writes():
    first_lane = gpu_combine._first_lane

    def first_of_all(layout, thread):
        from iree.compiler.dialects import arith

        return arith.AndIOp(first_lane(layout, thread), arith.CmpIOp(arith.CmpIPredicate.eq, thread, mlir.index(0)).result).result

    gpu_combine._first_lane = first_of_all


def wrong_identity():
    start._is_minus_zero = lambda the_problem: True
    start.constant = lambda value, element: mlir.constant(1, element)


def nothing():
    """No mutation: the schedule as it is."""


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    job = pickle.load(sys.stdin.buffer)
    assert isinstance(job.problem, problem.Problem)
    vmfb, _ = backend.make(job, "artifact", None)
    sys.stdout.buffer.write(vmfb)
