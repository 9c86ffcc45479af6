"""The tuning that is used where none is given."""

from __future__ import annotations

import math

from .layout import SHARED_ALIGNMENT
from .loops import INNER, ROWS, K
from .problem import Problem
from .targets import Target
from .tuning import Tuning

# Rows from which one workgroup a row fills the largest of our GPUs (304 compute units) by itself.
MANY_ROWS = 304
CPU_LANES, CPU_ELEMENTS = 16, 4
LONG_ROW = 1 << 16  # columns to a piece of a CPU's row, which gets 256 accumulators then, so that each of them adds few values
CPU_PIECE = 1 << 16  # elements to a piece of K of results that lie side by side, which are too few for all cores, and
CPU_PIECE_COLUMNS = 256  # columns at least: each piece writes its results, and they are read again
CPU_WORKGROUP = 1 << 14  # elements of one CPU workgroup at most: less, and starting it shows
CPU_INNER_TILE, CPU_INNER_LEAST = 4096, 64  # results side by side in memory of one CPU workgroup: at most, and for several workgroups
LOAD_BYTES = 16
ACCUMULATOR_BYTES = 64  # of one lane
MAX_SUBGROUPS, MAX_SUBGROUPS_OF_MANY_ROWS = 16, 4
PIECE_BYTES, LEAST_PIECES = 1 << 16, 4  # of K on a GPU: at least, and for a split to be worth its second kernel
STEPS_IN_FLIGHT = 4  # that a split's kernel reads before it adds
COMPUTE_UNITS = 64  # of a GPU whose number is not known


def default_tuning(problem: Problem, target: Target) -> Tuning:
    """A good tuning of the problem on the target, already in full form; `Tuning()` where nothing is left to reduce.

    On the CPU 64 accumulators a row hide the latency of the additions and fill its vector registers; any number from 32 to 256 is as
    fast. They are never more than K, so that even a short row has one whole step. A long row gets 256, for accuracy: the error of an
    accumulator grows with the number of values it adds, and is cut into pieces that all cores share. A workgroup takes as many short rows
    as make its start cheap.

    On a GPU a reduction waits for memory. So each lane loads 16 bytes at a time, the widest load there is; the lanes lie along K,
    where their loads join up, and only for rows too short for all of them do several rows share a subgroup. Subgroups lie along K as
    well while K has a whole step for each: a single row needs many loads in flight, but many rows fill the device by themselves, and
    then more than four subgroups only add to the merge. Few rows of a long K are split over workgroups, twice as many as there are compute
    units, as long as each of them reads 64 KiB.

    >>> from iree_reduce_plugin.targets import TARGETS
    >>> default_tuning(Problem.of((4, 4096)), TARGETS["cpu"]).to_json()
    '{"workgroup": [1, 0], "partial_reduction": [0, 64], "thread": [1, 4], "lane_basis": [[1, 16], [0, 1]], \
"subgroup_basis": [[1, 1], [0, 1]], "workgroup_size": [16, 1, 1], "subgroup_size": 16}'
    >>> default_tuning(Problem.of((1000, 32), "f16"), TARGETS["gfx942"]).lane_basis
    ((16, 4), (0, 1))
    """
    if problem.columns == 1 or problem.is_empty:
        return Tuning()
    if target.is_gpu:
        lists = _gpu_inner(problem, target) if INNER in problem.named_loops else _gpu(problem, target)
    else:
        lists = _cpu_inner(problem) if INNER in problem.named_loops else _cpu(problem)
    return lists.resolve(problem)


def _cpu(problem: Problem) -> Tuning:
    elements = min(CPU_ELEMENTS, _power_below(problem.columns))
    lanes = min(CPU_LANES, _power_below(problem.columns // elements))
    piece = 0
    if problem.columns >= LONG_ROW:
        lanes, piece = 64, LONG_ROW
    rows = max(1, min(CPU_WORKGROUP // problem.columns, problem.rows // 4))
    return _tuning(problem, {ROWS: (1, 1, rows), K: (1, lanes, elements)}, piece)


def _cpu_inner(problem: Problem) -> Tuning:
    """Vectors lie along the inner loop, so one accumulator a result is enough; where that loop is short, several make up for it."""
    rows, inner = (problem.named_loops.get(name, 1) for name in (ROWS, INNER))
    tile = min(inner, CPU_INNER_TILE)
    if rows == 1:
        tile = min(tile, max(CPU_INNER_LEAST, -(-inner // 4)))
    each = max(1, min(CPU_WORKGROUP // (problem.columns * tile), rows // 4))
    elements = _power_below(max(1, min(16, CPU_INNER_LEAST // inner, problem.columns)))
    columns = max(CPU_PIECE // tile, CPU_PIECE_COLUMNS) // elements * elements
    piece = columns if rows // each * -(-inner // tile) < 4 else 0
    return _tuning(problem, {ROWS: (1, 1, each), INNER: (1, 1, tile), K: (1, 1, elements)}, piece)


def _gpu(problem: Problem, target: Target) -> Tuning:
    subgroup_size = (target.subgroup_sizes or (1,))[0]
    elements = min(_elements(problem), _power_above(problem.columns))
    lanes = min(subgroup_size, _power_above(-(-problem.columns // elements)))
    if problem.rows == 1:
        lanes = subgroup_size  # there is no other loop to lie along; those past K idle
    most = min(MAX_SUBGROUPS_OF_MANY_ROWS if problem.rows >= MANY_ROWS else MAX_SUBGROUPS, (target.max_threads or 1) // subgroup_size)
    subgroups = min(most, _power_below(max(1, problem.columns // (lanes * elements))))
    row_lanes = subgroup_size // lanes
    # One row for each of those lanes, unless that makes too many workgroups: then more subgroups along the rows, then rows a thread.
    all_subgroups = (target.max_threads or 1) // subgroup_size
    row_subgroups, each = _spread(problem.rows, row_lanes, all_subgroups, target)
    subgroups = min(subgroups, all_subgroups // row_subgroups, _that_fit(problem, target, row_subgroups * row_lanes * each))
    tiles = {ROWS: (row_subgroups, row_lanes, each), K: (subgroups, lanes, elements)}
    narrow = {**tiles, K: (min(subgroups, MAX_SUBGROUPS_OF_MANY_ROWS), lanes, elements)}
    piece = _piece(problem, narrow[K], -(-problem.rows // (row_subgroups * row_lanes * each)), row_lanes, target)
    return _tuning(problem, narrow, piece, STEPS_IN_FLIGHT) if piece else _tuning(problem, tiles)


def _piece(problem: Problem, tile: tuple[int, int, int], workgroups: int, beside: int, target: Target) -> int:
    """Columns to a workgroup of so many results beside each other, where the kept loops are too few workgroups for the device; else 0."""
    wanted = 2 * (target.compute_units or COMPUTE_UNITS) // workgroups
    step = math.prod(tile) * STEPS_IN_FLIGHT
    least = _power_above(-(-PIECE_BYTES // (step * beside * problem.input.bytes)))
    steps = problem.columns // step
    if wanted < LEAST_PIECES or steps < LEAST_PIECES * least:
        return 0
    return step * max(least, _power_below(max(1, steps // wanted)))


def _gpu_inner(problem: Problem, target: Target) -> Tuning:
    """The lanes lie along the inner loop, where their loads join up; those that it has no elements for, and the subgroups, along K."""
    rows, inner = (problem.named_loops.get(name, 1) for name in (ROWS, INNER))
    subgroup_size = (target.subgroup_sizes or (1,))[0]
    all_subgroups = (target.max_threads or 1) // subgroup_size
    row_subgroups, each = _spread(rows, 1, all_subgroups, target)
    elements = max(1, min(_elements(problem), inner) // each)
    lanes = min(subgroup_size, _power_above(-(-inner // elements)))
    inner_subgroups, more = _spread(inner, lanes * elements, all_subgroups // row_subgroups, target)
    elements *= more
    columns = subgroup_size // lanes
    workgroups = rows * -(-inner // (lanes * elements))
    most = min(MAX_SUBGROUPS_OF_MANY_ROWS if workgroups >= MANY_ROWS else MAX_SUBGROUPS, all_subgroups // (row_subgroups * inner_subgroups))
    slots = row_subgroups * each * inner_subgroups * lanes * elements
    subgroups = min(most, _power_below(max(1, problem.columns // columns)), _that_fit(problem, target, slots))
    tiles = {ROWS: (row_subgroups, 1, each), INNER: (inner_subgroups, lanes, elements), K: (subgroups, columns, 1)}
    narrow = {**tiles, K: (min(subgroups, MAX_SUBGROUPS_OF_MANY_ROWS), columns, 1)}
    piece = _piece(problem, narrow[K], -(-problem.rows // slots), min(slots, problem.rows), target)
    return _tuning(problem, narrow, piece, STEPS_IN_FLIGHT) if piece else _tuning(problem, tiles)


def _elements(problem: Problem) -> int:
    """As many as a load brings, unless their accumulators are many more registers."""
    held = sum(element.bytes for element in problem.accumulators)
    return min(LOAD_BYTES // problem.input.bytes, _power_below(max(1, ACCUMULATOR_BYTES // held)))


def _spread(extent: int, tile: int, most: int, target: Target) -> tuple[int, int]:
    """Subgroups along a kept loop, and times as many elements a thread, so that there are no more workgroups than a dispatch has."""
    needed = -(-extent // (tile * target.max_workgroups))
    subgroups = min(_power_above(needed), most)
    return subgroups, -(-needed // subgroups)


def _that_fit(problem: Problem, target: Target, slots: int) -> int:
    """The most subgroups along K whose partials of so many results fit the shared memory."""
    each = slots * sum(element.bytes for element in problem.accumulators)
    return _power_below(max(1, ((target.shared_memory or 0) - SHARED_ALIGNMENT * (len(problem.accumulators) - 1)) // each))


def _tuning(problem: Problem, tiles: dict[str, tuple[int, int, int]], piece: int = 0, unroll: int = 1) -> Tuning:
    """Subgroups, lanes and elements along each loop there is; columns to a piece of K, or 0; steps taken at a time.

    The neighbours among the lanes lie along the loop innermost in memory.
    """
    there = [tiles[name] for name in problem.named_loops]
    count = len(there)
    mapping = tuple(range(count))
    if INNER in problem.named_loops:
        mapping = (*range(count - 2), count - 1, count - 2)
    lanes = [0] * count
    for i, (_, loop_lanes, _) in enumerate(there):
        lanes[mapping[i]] = loop_lanes
    return Tuning(
        thread=tuple(elements for _, _, elements in there),
        lane_basis=(tuple(lanes), mapping),
        subgroup_basis=(tuple(subgroups for subgroups, _, _ in there), tuple(range(count))),
        partial_reduction=(*[0] * (count - 1), math.prod(there[-1]) * unroll),
        split_reduction=(*[0] * (count - 1), piece) if piece else None,
    )


def fitted(full: Tuning, problem: Problem, target: Target) -> Tuning:
    """A resolved tuning with the lanes of a subgroup that the GPU target has; elements, subgroups and rows a thread as they were.

    >>> from iree_reduce_plugin.targets import TARGETS
    >>> problem = Problem.of((100, 4096))
    >>> full = Tuning(thread=(1, 4), lane_basis=((1, 64), (0, 1)), subgroup_basis=((1, 4), (0, 1))).resolve(problem)
    >>> fitted(full, problem, TARGETS["vulkan8"]).to_json()
    '{"thread": [1, 4], "lane_basis": [[1, 8], [0, 1]], "subgroup_basis": [[1, 4], [0, 1]]}'
    """
    size = min(target.subgroup_sizes or (1,), key=lambda size: abs(size - (full.subgroup_size or 0)))
    counts, mapping = full.lane_basis or ((), ())
    left, fewer = size, [0] * len(counts)
    for digit in reversed(range(len(counts))):  # the neighbours first
        fewer[digit] = min(left, counts[digit]) if digit else left
        left //= fewer[digit]
    return Tuning(thread=full.thread, lane_basis=(tuple(fewer), mapping), subgroup_basis=full.subgroup_basis)


def _power_below(n: int) -> int:
    """The largest power of two that is at most n."""
    return 1 << (n.bit_length() - 1)


def _power_above(n: int) -> int:
    """The smallest power of two that is at least n."""
    return 1 << (n - 1).bit_length()
