"""From a tuning as given to its full form on a problem's loops, and every contradiction on the way.

Kept apart from `tuning.py`, which only knows what a well-formed tuning is, and from `verify.py`, which knows the targets.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from .errors import TuningError, check

if TYPE_CHECKING:
    from .problem import Problem
    from .tuning import Tuning

Tile = tuple[int, ...]
Basis = tuple[tuple[int, ...], tuple[int, ...]]


def on_loops(tuning: Tuning, problem: Problem) -> Tuning:
    """The tuning with one entry for each canonical loop: entries given for loops of extent 1 are checked and removed.

    >>> from iree_reduce_plugin.problem import Problem
    >>> from iree_reduce_plugin.tuning import Tuning
    >>> on_loops(Tuning(workgroup=(1, 0), reduction=(0, 256)), Problem.of((1, 4096))).reduction
    (256,)
    """
    changed: dict[str, Tile | Basis] = {}
    for name in ("workgroup", "partial_reduction", "reduction", "thread", "split_reduction"):
        entries: Tile | None = getattr(tuning, name)
        if entries is not None:
            kept = _kept_entries(name, entries, problem)
            for i, entry in enumerate(entries):
                check(
                    i in kept or entry <= 1,
                    f"{name} {list(entries)}: entry {entry} is for a loop of extent 1, which is dropped, so that {loop_names(problem)} "
                    "is left: give 0 or 1 there",
                )
            changed[name] = tuple(entries[i] for i in kept)
    for name in ("lane_basis", "subgroup_basis"):
        basis: Basis | None = getattr(tuning, name)
        if basis is not None:
            counts, mapping = basis
            kept = _kept_entries(name, mapping, problem)
            for i, digit in enumerate(mapping):
                check(
                    i in kept or counts[digit] == 1,
                    f"{name} {[list(counts), list(mapping)]}: count {counts[digit]} is for a loop of extent 1, which is dropped, so that "
                    f"{loop_names(problem)} is left: give 1 there",
                )
            digits = sorted(mapping[i] for i in kept)
            changed[name] = (tuple(counts[d] for d in digits), tuple(digits.index(mapping[i]) for i in kept))
    return dataclasses.replace(tuning, **changed)  # type: ignore[arg-type]


def _kept_entries(name: str, entries: Tile, problem: Problem) -> list[int]:
    """Which of the entries are for loops that are still there. A list may be for the canonical loops, `(rows, K)`, or all axes."""
    loops = problem.loops
    reduced = [problem.shape[a] for a in problem.axes]
    kept_axes = [n for a, n in enumerate(problem.shape) if a not in problem.axes]
    for extents in (list(loops), [problem.rows, problem.columns], kept_axes + reduced):
        kept = [i for i, n in enumerate(extents) if n != 1]
        if len(entries) == len(extents) and [extents[i] for i in kept] == list(loops):
            return kept
    raise TuningError(
        f"{name} has {len(entries)} {'entry' if len(entries) == 1 else 'entries'}, but {problem} has {len(loops)} "
        f"{'loop' if len(loops) == 1 else 'loops'}, {loop_names(problem)}: give one entry for each"
    )


def loop_names(problem: Problem) -> str:
    """The canonical loops for a reader: `(rows=4, K=4096)`."""
    return "(" + ", ".join(f"{name}={extent}" for name, extent in problem.named_loops.items()) + ")"


def complete(tuning: Tuning, extents: tuple[int | None, ...]) -> Tuning:
    """Fills every field that follows from the others. `extents` are the loops', the reduced one last; None where not known.

    >>> from iree_reduce_plugin.tuning import Tuning
    >>> complete(Tuning(reduction=(1024,), subgroup_size=64), (4096,)).thread
    (16,)
    """
    loops, k = len(extents), len(extents) - 1
    check(loops <= 3, f"the tuning is for {loops} loops: at most 3 are left of any reduction, rows, inner and K")
    for name in ("workgroup", "partial_reduction", "reduction", "thread", "split_reduction"):
        entries = getattr(tuning, name)
        check(entries is None or len(entries) == loops, f"{name} {entries} does not have {loops} entries, as the other lists do")
    subgroup_basis = _basis("subgroup_basis", tuning.subgroup_basis, loops, 1)
    lane_basis = _basis("lane_basis", tuning.lane_basis, loops, tuning.subgroup_size or 1)
    subgroups, lanes = ([counts[m] for m in mapping] for counts, mapping in (subgroup_basis, lane_basis))
    if tuning.lane_basis is not None or tuning.subgroup_size is not None:
        _check_lane_tree(lanes[k])
    size = math.prod(lanes)
    if tuning.subgroup_size is not None:
        check(
            size == tuning.subgroup_size,
            f"lane_basis has {_times(lane_basis[0])} lanes, but subgroup_size is {tuning.subgroup_size}: "
            f"make the counts' product {tuning.subgroup_size}, or set subgroup_size to {size}",
        )
    threads = _threads(tuning, subgroup_basis[0], size)
    # A thread entry of 0 says no more than one left out: IREE writes it on loops that it does not tile.
    thread = tuning.thread or (0,) * loops
    tile, elements = _reduced(tuning, subgroups[k], lanes[k], thread[k])
    kept = [_kept(tuning, i, subgroups[i], lanes[i], thread[i], extents[i]) for i in range(k)]
    owned = tuning.workgroup or (0,)
    check(
        owned[-1] == 0,
        f"workgroup {list(owned)}: entry {owned[-1]} is on the reduced loop, which one workgroup takes whole: set it to 0",
    )
    return dataclasses.replace(
        tuning,
        workgroup=(*(owned_tile for owned_tile, _ in kept), 0),
        partial_reduction=(*(0 for _ in kept), tile),
        reduction=None,
        thread=(*(held for _, held in kept), elements),
        lane_basis=lane_basis,
        subgroup_basis=subgroup_basis,
        workgroup_size=threads,
        subgroup_size=size,
        split_reduction=_split(tuning, tile, extents[k]),
    )


def _basis(name: str, basis: Basis | None, loops: int, default: int) -> Basis:
    """The basis as given; left out, all are along the reduced loop."""
    if basis is None:
        return (1,) * (loops - 1) + (default,), tuple(range(loops))
    counts, mapping = basis
    check(len(mapping) == loops, f"{name} {[list(counts), list(mapping)]} does not have {loops} entries, as the other lists do")
    return basis


def _check_lane_tree(lanes: int) -> None:
    below = 1 << (lanes.bit_length() - 1)
    check(
        lanes == below,
        f"lane_basis: {lanes} lanes along the reduced loop is not a power of two, and lanes combine as a binary tree: "
        f"use {below} or {2 * below}",
    )


def _threads(tuning: Tuning, subgroups: Tile, subgroup_size: int) -> Tile:
    count = math.prod(subgroups) * subgroup_size
    if tuning.workgroup_size is None:
        return (count, 1, 1)
    x, *others = tuning.workgroup_size
    total = math.prod(tuning.workgroup_size)
    check(
        others == [1, 1],
        f"workgroup_size {list(tuning.workgroup_size)} is not along x only, and the thread id is taken flat: write [{total}, 1, 1]",
    )
    check(
        x == count,
        f"workgroup_size {list(tuning.workgroup_size)} has {x} threads, but {_times(subgroups)} subgroups of {subgroup_size} lanes "
        f"are {count}: change subgroup_basis, or set workgroup_size to [{count}, 1, 1]",
    )
    return (x, 1, 1)


def _reduced(tuning: Tuning, subgroups: int, lanes: int, elements: int) -> tuple[int, int]:
    """Tile and elements a lane along the reduced loop; each follows from the other."""
    name = "reduction" if tuning.reduction is not None else "partial_reduction"
    given = tuning.reduction or tuning.partial_reduction
    unit = subgroups * lanes * (elements or 1)
    if given is None:
        check(
            elements > 0,
            "partial_reduction is left out, and so is thread, from which it would follow: "
            f"give the tile of the reduced loop, a multiple of {subgroups} subgroups x {lanes} lanes = {subgroups * lanes}",
        )
        return unit, elements
    tile = given[-1]
    check(
        all(entry == 0 for entry in given[:-1]),
        f"{name} {list(given)}: entry {next((e for e in given[:-1] if e), 0)} is on a parallel loop, which is not reduced: set it to 0",
    )
    factors = f"{subgroups} subgroups x {lanes} lanes"
    if elements:
        thread = list(tuning.thread or ())
        check(
            tile >= unit and tile % unit == 0,
            f"{name} {tile} conflicts with thread {thread}: it is not a multiple of {factors} x {elements} elements = {unit}; "
            f"{_nearest(tile, unit)}, or leave thread out",
        )
    else:
        check(
            tile >= unit and tile % unit == 0,
            f"{name} {tile} is not a multiple of {factors} = {unit}, so it is no product of subgroups x lanes x elements; "
            f"{_nearest(tile, unit)}",
        )
    return tile, elements or tile // unit


def _split(tuning: Tuning, tile: int, extent: int | None) -> Tile | None:
    """Columns to a piece of K; None where there is but one piece."""
    given = tuning.split_reduction
    if given is None or given[-1] == 0:
        check(
            not any(given or ()),
            f"split_reduction {list(given or ())}: only the reduced loop, the last, is split: set the others to 0",
        )
        return None
    piece = given[-1]
    check(not any(given[:-1]), f"split_reduction {list(given)}: only the reduced loop, the last, is split: set the others to 0")
    check(
        piece % tile == 0,
        f"split_reduction {list(given)}: a piece of {piece} columns is not a multiple of partial_reduction {tile}; {_nearest(piece, tile)}",
    )
    return given if extent is None or extent // tile * tile > piece else None


def _kept(tuning: Tuning, loop: int, subgroups: int, lanes: int, elements: int, extent: int | None) -> tuple[int, int]:
    """Tile and elements a lane along a kept loop, the rows say."""
    unit = subgroups * lanes * (elements or 1)
    if tuning.workgroup is None:
        return unit, elements or 1
    tile = tuning.workgroup[loop] or extent
    if tile is None:
        raise TuningError("workgroup 0 is all rows, which depend on the problem")
    what = f"workgroup {list(tuning.workgroup)}: a row tile of {tile}" + ("" if tuning.workgroup[loop] else " (all rows)")
    factors = f"{subgroups} row subgroups x {lanes} row lanes"
    if elements:
        check(tile == unit, f"{what} is not {factors} x {elements} thread rows = {unit}; set it to {unit}, or leave thread out")
    else:
        check(tile % unit == 0, f"{what} is not a multiple of {factors} = {unit}; {_nearest(tile, unit)}")
    return tile, elements or tile // unit


def _nearest(tile: int, unit: int) -> str:
    below = tile // unit * unit
    return f"use {below} or {below + unit}" if below else f"use {unit}"


def _times(counts: Tile) -> str:
    return " x ".join(map(str, counts)) + (f" = {math.prod(counts)}" if len(counts) > 1 else "")
