"""What a job's tuning does, in words: why these lanes, subgroups, rows and pieces, how much of the device works, and what is in flight.

On a GPU a reduction waits for memory. By Little's law the bytes on their way must be its bandwidth times its latency: on an MI300X 5.3 TB/s
(AMD's CDNA 3 white paper) times 0.8 us (assumed), which its 304 compute units share, 14 KB each; that is 16 loads of 128 bits by 64 lanes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from .job import Job
from .layout import Layout
from .loops import INNER
from .targets import Target
from .words import counted

WAVES_OF_UNIT = 32  # on one compute unit: 8 on each of 4 SIMDs
WIDE_LOADS = 16  # of 16 bytes by 64 lanes: what a compute unit of gfx942 has to have in flight


def explain(job: Job, dispatches: list[dict[str, Any]]) -> str:
    """Lines for a reader. dispatches: those of the job's report.

    >>> from iree_reduce_plugin import compile
    >>> plan = compile("4x4096xf32", target="cpu")
    >>> print(plan.explain())
    sum of 4x4096xf32 over axes (1,): 4 results of 4096 elements, 64 KiB to read.
    Of each result 64 elements are read at a time, into as many accumulators: one chain of additions would wait for each of them.
    1 result to a workgroup: 4 workgroups for the cores to share.
    """
    return "\n".join(_lines(job, dispatches))


def _lines(job: Job, dispatches: list[dict[str, Any]]) -> Iterator[str]:
    problem, layout = job.problem, job.layout
    read = math.prod(problem.shape) * sum(element.bytes for element in problem.inputs)
    yield f"{problem}: {counted(problem.rows, 'result')} of {counted(problem.columns, 'element')}, {_size(read)} to read."
    if layout is None:
        yield "There is no tuning: " + ("the array is empty." if problem.is_empty else "nothing is left to reduce, or IREE decides.")
        return
    yield from (_gpu_lines if job.target.is_gpu else _cpu_lines)(job, layout)
    if layout.pieces > 1:
        length = layout.piece_steps * layout.columns.size
        alone = math.prod(tile.count for tile in layout.kept.values())
        yield (
            f"K is split: {counted(alone, 'workgroup')} alone would leave most of the device idle, so {layout.pieces} share each result, "
            f"{length} elements to each, and a second kernel merges their results."
        )
    yield from _device_lines(job, layout, dispatches)


def _gpu_lines(job: Job, layout: Layout) -> Iterator[str]:
    problem, tile = job.problem, layout.columns
    across = problem.memory[-1].loop
    nearest = layout.inner if across == INNER else tile
    joined = nearest.lanes * nearest.elements * problem.input.bytes
    yield (
        f"{counted(nearest.lanes, 'lane')} of {layout.subgroup_size} lie along {across}, which is contiguous in memory, with "
        f"{counted(nearest.elements, 'element')} each: a subgroup reads {_size(joined)} side by side."
    )
    if across == INNER and tile.lanes > 1:
        yield f"The other lanes lie along K, {tile.lanes} of them, as the inner loop has no elements for all."
    if tile.subgroups > 1:
        yield f"{tile.subgroups} subgroups along K: more loads in flight for one result; their partials meet in shared memory, once."
    yield f"{counted(layout.rows.size * layout.inner.size, 'result')} to a workgroup of {layout.workgroup_size} threads."
    if layout.unroll > 1:
        yield f"{layout.unroll} steps are read before the first of them is added."


def _cpu_lines(job: Job, layout: Layout) -> Iterator[str]:
    tile = layout.columns
    if INNER in layout.kept:
        yield f"Vectors lie along the inner loop, {layout.inner.size} of it to a workgroup, {counted(tile.size, 'accumulator')} a result."
    else:
        yield (
            f"Of each result {counted(tile.size, 'element')} are read at a time, into as many accumulators: one chain of additions would "
            "wait for each of them."
        )
    results = layout.rows.size * (1 if INNER in layout.kept else layout.inner.size)
    count = math.prod(layout.workgroups)
    yield f"{counted(results, 'result')} to a workgroup: {counted(count, 'workgroup')} for the cores to share."


def _device_lines(job: Job, layout: Layout, dispatches: list[dict[str, Any]]) -> Iterator[str]:
    """How much of the GPU works, and what is in flight, from the assembly."""
    units = job.target.compute_units
    if units is None or not dispatches or dispatches[0].get("vgprs") is None:
        return
    first, count = dispatches[0], math.prod(layout.workgroups)
    waves = layout.workgroup_size // layout.subgroup_size
    resident = min(-(-count // units), _fitting(job.target, first, waves)) * waves
    yield (
        f"{counted(count, 'workgroup')} on {units} compute units: {min(100, 100 * count // units)} % of them work, with {resident} waves "
        f"each at once ({first['vgprs']} vector registers, {first['shared_memory_bytes']} bytes of shared memory)."
    )
    wide = max((kind for kind, n in first["wide_loads"].items() if n), key=lambda kind: int(kind[1:]), default="b0")
    lane = first["loads_in_flight"] * int(wide[1:]) // 8
    total = resident * layout.subgroup_size * lane
    enough = resident * first["loads_in_flight"] * int(wide[1:]) // 128
    verdict = "enough" if enough >= WIDE_LOADS else "fewer than memory could bring"
    yield (
        f"{counted(first['loads_in_flight'], 'load')} of {wide[1:]} bits in flight a lane, {_size(total)} on a compute unit: as much as "
        f"{enough} wide loads, where {WIDE_LOADS} hide the latency of an MI300X's memory: {verdict}."
    )


def _fitting(target: Target, entry: dict[str, Any], waves: int) -> int:
    """Workgroups of so many waves that a compute unit holds at once, by its registers and its shared memory."""
    lanes = entry["subgroup_size"] / min(target.subgroup_sizes or (1,))
    by_registers = 4 * min(WAVES_OF_UNIT // 4, int((target.registers or 512) / lanes) // max(1, entry["vgprs"])) // waves
    by_memory: int = (target.shared_memory or 0) // max(1, entry["shared_memory_bytes"])
    return max(1, int(min(by_registers, by_memory)))


def _size(count: int) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.4g} {unit}"
        count /= 1024  # type: ignore[assignment]
    return ""
