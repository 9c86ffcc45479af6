"""The tuning that is used where none is given."""

from __future__ import annotations

from .problem import Problem
from .targets import Target
from .tuning import Tuning

# Rows from which one workgroup a row fills the largest of our GPUs (304 compute units) by itself.
MANY_ROWS = 304
CPU_LANES, CPU_ELEMENTS = 16, 4
LONG_ROW = 1 << 16  # columns from which a CPU's row gets 1024 accumulators, so that each of them adds fewer values
CPU_WORKGROUP = 1 << 14  # elements of one CPU workgroup at most: less, and starting it shows
LOAD_BYTES = 16
MAX_SUBGROUPS, MAX_SUBGROUPS_OF_MANY_ROWS = 16, 4


def default_tuning(problem: Problem, target: Target) -> Tuning:
    """A good tuning of the problem on the target, already in full form; `Tuning()` where nothing is left to reduce.

    On the CPU 64 accumulators a row hide the latency of the additions and fill its vector registers; any number from 32 to 256 is as
    fast. They are never more than K, so that even a short row has one whole step. A long row gets 1024, for accuracy: the error of an
    accumulator grows with the number of values it adds. A workgroup takes as many short rows as make its start cheap.

    On a GPU a reduction waits for memory. So each lane loads 16 bytes at a time, the widest load there is; the lanes lie along K,
    where their loads join up, and only for rows too short for all of them do several rows share a subgroup. Subgroups lie along K as
    well while K has a whole step for each: a single row needs many loads in flight, but many rows fill the device by themselves, and
    then more than four subgroups only add to the merge.

    >>> from iree_reduce_plugin.targets import TARGETS
    >>> default_tuning(Problem.of((4, 4096)), TARGETS["cpu"]).to_json()
    '{"workgroup": [1, 0], "partial_reduction": [0, 64], "thread": [1, 4], "lane_basis": [[1, 16], [0, 1]], \
"subgroup_basis": [[1, 1], [0, 1]], "workgroup_size": [16, 1, 1], "subgroup_size": 16}'
    >>> default_tuning(Problem.of((1000, 32), "f16"), TARGETS["gfx942"]).lane_basis
    ((16, 4), (0, 1))
    """
    if problem.columns == 1 or problem.is_empty:
        return Tuning()
    lists = _gpu(problem, target) if target.is_gpu else _cpu(problem)
    return lists.resolve(problem)


def _cpu(problem: Problem) -> Tuning:
    elements = min(CPU_ELEMENTS, _power_below(problem.columns))
    lanes = min(CPU_LANES, _power_below(problem.columns // elements))
    subgroups = 1
    if problem.columns >= LONG_ROW:
        lanes, subgroups = 64, 4
    rows = max(1, min(CPU_WORKGROUP // problem.columns, problem.rows // 4))
    return _tuning(problem, rows, 1, lanes, subgroups, elements)


def _gpu(problem: Problem, target: Target) -> Tuning:
    subgroup_size = (target.subgroup_sizes or (1,))[0]
    elements = min(LOAD_BYTES // problem.input.bytes, _power_above(problem.columns))
    lanes = min(subgroup_size, _power_above(-(-problem.columns // elements)))
    if problem.rows == 1:
        lanes = subgroup_size  # there is no other loop to lie along; those past K idle
    most = min(MAX_SUBGROUPS_OF_MANY_ROWS if problem.rows >= MANY_ROWS else MAX_SUBGROUPS, (target.max_threads or 1) // subgroup_size)
    subgroups = min(most, _power_below(max(1, problem.columns // (lanes * elements))))
    row_lanes = subgroup_size // lanes
    # One row for each of those lanes, unless that makes too many workgroups: then more subgroups along the rows, then rows a thread.
    needed = -(-problem.rows // (row_lanes * target.max_workgroups))
    all_subgroups = (target.max_threads or 1) // subgroup_size
    row_subgroups = min(_power_above(needed), all_subgroups)
    subgroups = min(subgroups, all_subgroups // row_subgroups)
    return _tuning(problem, -(-needed // row_subgroups), row_lanes, lanes, subgroups, elements, row_subgroups)


def _tuning(problem: Problem, rows: int, row_lanes: int, lanes: int, subgroups: int, elements: int, row_subgroups: int = 1) -> Tuning:
    """`rows` and `elements` a thread; the tiles follow."""
    if problem.rows == 1:
        return Tuning(thread=(elements,), lane_basis=((lanes,), (0,)), subgroup_basis=((subgroups,), (0,)))
    return Tuning(thread=(rows, elements), lane_basis=((row_lanes, lanes), (0, 1)), subgroup_basis=((row_subgroups, subgroups), (0, 1)))


def fitted(full: Tuning, problem: Problem, target: Target) -> Tuning:
    """A resolved tuning with the lanes of a subgroup that the GPU target has; elements, subgroups and rows a thread as they were.

    >>> from iree_reduce_plugin.targets import TARGETS
    >>> problem = Problem.of((100, 4096))
    >>> full = Tuning(thread=(1, 4), lane_basis=((1, 64), (0, 1)), subgroup_basis=((1, 4), (0, 1))).resolve(problem)
    >>> fitted(full, problem, TARGETS["vulkan8"]).to_json()
    '{"thread": [1, 4], "lane_basis": [[1, 8], [0, 1]], "subgroup_basis": [[1, 4], [0, 1]]}'
    """
    size = min(target.subgroup_sizes or (1,), key=lambda size: abs(size - (full.subgroup_size or 0)))
    *_, reduced = range(len(problem.loops))
    lanes = size if problem.rows == 1 else min(size, full.lanes(reduced))
    basis = ((*(size // lanes for _ in range(reduced)), lanes), tuple(range(reduced + 1)))
    return Tuning(thread=full.thread, lane_basis=basis, subgroup_basis=full.subgroup_basis)


def _power_below(n: int) -> int:
    """The largest power of two that is at most n."""
    return 1 << (n.bit_length() - 1)


def _power_above(n: int) -> int:
    """The smallest power of two that is at least n."""
    return 1 << (n - 1).bit_length()
