"""Whether a tuning can be compiled for a problem and a target. IREE checks almost none of this: it returns wrong sums instead.

A tuning's own contradictions are found by `Tuning` and `Tuning.resolve`; here are the limits of the target, of the strategy, and of
what this package does so far. Every refusal is one line with the field, the value, the limit and what to change.
"""

from __future__ import annotations

import math

from .defaults import default_tuning, fitted
from .errors import InputError, TuningError, check
from .exactness import lacking
from .job import STRATEGIES
from .layout import Layout
from .problem import Problem
from .targets import CPU_STACK_BYTES, Target, find_target
from .tuning import Tuning

# The CPU builder keeps the accumulators of one row on the stack and in the first two cache levels.
MAX_CPU_ACCUMULATOR_BYTES = CPU_STACK_BYTES // 2
MAX_CPU_STEP = 1 << 20
MAX_CPU_THREAD_ROWS = 1 << 16
MAX_WIDE_WAVE_BYTES = 96
MAX_SPLIT_WORKGROUPS = 65535  # along a dispatch's second and third dimension


def verify(
    tuning: object,
    shape: tuple[int, ...],
    dtype: object = "f32",
    op: str = "sum",
    axis: int | tuple[int, ...] | None = -1,
    target: str = "cpu",
    strategy: str = "subgroup",
) -> Tuning:
    """The full form of a tuning that fits; TuningError or InputError for one that does not. Nothing is compiled.

    tuning: anything that `Tuning.parse` takes.

    >>> tuning = {"reduction": [0, 256], "lane_basis": [[4, 16], [0, 1]], "subgroup_basis": [[1, 4], [0, 1]]}
    >>> full = verify(tuning, (4, 4096), target="gfx942")
    >>> full.workgroup, full.thread, full.workgroup_size
    ((4, 0), (1, 4), (256, 1, 1))
    >>> verify({"reduction": [1024], "subgroup_size": 48}, (4096,))
    Traceback (most recent call last):
        ...
    iree_reduce_plugin.errors.TuningError: lane_basis: 48 lanes along the reduced loop is not a power of two, \
and lanes combine as a binary tree: use 32 or 64
    """
    return verify_problem(Tuning.parse(tuning), Problem.of(shape, dtype, op, axis), find_target(target), strategy)


def verify_problem(tuning: Tuning, problem: Problem, target: Target, strategy: str = "subgroup") -> Tuning:
    """As `verify`, for a problem and a target that exist already; everything that compiles calls it.

    Where nothing is left to reduce (K = 1, or an empty array) the tuning has no meaning, and comes back as it is.
    """
    check_supported(problem, target, strategy)
    check(
        strategy != "default",
        "strategy 'default' is IREE without a tuning: leave the tuning out, or use strategy 'subgroup' or 'iree'",
    )
    full = tuning.resolve(problem)
    if problem.columns == 1 or problem.is_empty:
        return full
    layout = Layout.of(problem, full)
    check(
        not target.is_gpu or tuning.lane_basis is not None or tuning.subgroup_size is not None,
        f"lane_basis is left out, and so is subgroup_size, which makes one lane of a subgroup: give it, as in "
        f"{default_tuning(problem, target).to_json()}",
    )
    if target.is_gpu:
        _check_gpu(full, layout, problem, target)
    else:
        _check_cpu(full, layout, problem)
    if strategy == "iree":
        _check_iree(full, layout)
    return full


def check_supported(problem: Problem, target: Target, strategy: str = "subgroup") -> None:
    """InputError for what this package does not do (yet), whatever the tuning.

    >>> from iree_reduce_plugin.targets import TARGETS
    >>> check_supported(Problem.of((4, 4096)), TARGETS["cpu"], "iree")
    Traceback (most recent call last):
        ...
    iree_reduce_plugin.errors.InputError: strategy 'iree' is for ROCm targets, and cpu is not one: \
use strategy 'subgroup' or 'default', or target gfx942
    """
    check(strategy in STRATEGIES, f"strategy {strategy!r} is not known: use one of {', '.join(STRATEGIES)}", InputError)
    check(
        strategy != "iree" or target.is_rocm,
        f"strategy 'iree' is for ROCm targets, and {target.name} is not one: use strategy 'subgroup' or 'default', or target gfx942",
        InputError,
    )
    check(
        strategy != "iree" or len(problem.memory) == len(problem.loops),
        f"strategy 'iree': the loops of {problem} are {len(problem.memory)} dimensions of memory, and a tuning for IREE's pipeline needs "
        "one entry for each; use strategy 'subgroup', or pass a copy with the reduced axes last",
        InputError,
    )
    check(
        not (target.backend == "vulkan" and problem.op.name == "prod" and problem.initial == 0 and problem.loop_type.is_float),
        f"initial {problem.initial}: on {target.name} a product of floats that 0 joins is not supported, as drivers take it for 0 whatever "
        "the rest is (NaN, say); leave it out, and multiply the result",
        InputError,
    )
    check(
        not (target.backend == "vulkan" and math.prod(problem.shape) >= 2**31),
        f"{problem}: {math.prod(problem.shape)} elements are above the {2**31 - 1} that {target.name} can count: reduce parts of it, "
        "or use target cpu",
        InputError,
    )
    none = lacking(problem, target)
    check(
        none is None or problem.is_empty,
        f"{problem}: {none and none[0]} of {none and none[1]} is not supported on {target.name}, as IREE has none; "
        f"{'compute it in f32, by a cast of the array or dtype' if none and none[1] == 'f64' else 'compute it from others'}",
        InputError,
    )


def _check_gpu(full: Tuning, layout: Layout, problem: Problem, target: Target) -> None:
    sizes, threads, memory = target.subgroup_sizes or (), target.max_threads or 0, target.shared_memory or 0
    if layout.subgroup_size not in sizes:
        raise TuningError(
            f"subgroup_size {layout.subgroup_size} is not one that {target.name} has: use {' or '.join(map(str, sizes))}, "
            f"e.g. {_that_fits(full, problem, target)}"
        )
    check(
        layout.workgroup_size <= threads,
        f"workgroup_size {layout.workgroup_size} is above the {threads} threads of a workgroup on {target.name}: "
        f"use at most {threads // layout.subgroup_size} subgroups",
    )
    for (name, tile), owned in zip(layout.kept.items(), full.workgroup or (), strict=False):
        check(
            tile.count <= target.max_workgroups,
            f"workgroup {list(full.workgroup or ())}: tiles of {owned} are {tile.count} workgroups along {name}, above the "
            f"{target.max_workgroups} of {target.name}: use at least {-(-tile.extent // target.max_workgroups)}",
        )
    check(
        layout.columns.lane_stride == 1 or layout.subgroup_size == min(sizes),
        f"lane_basis {[list(entries) for entries in full.lane_basis or ()]}: in subgroups of {layout.subgroup_size} {target.name} needs "
        f"the lanes of the reduced loop to be neighbours: make its count the last one, or use subgroups of {min(sizes)}",
    )
    if layout.pieces > 1:
        for count in (layout.pieces, *(tile.count for tile in layout.kept.values())):
            check(
                count <= MAX_SPLIT_WORKGROUPS,
                f"split_reduction {list(full.split_reduction or ())}: {count} workgroups along a loop are above the {MAX_SPLIT_WORKGROUPS} "
                "that there may be beside the pieces: use longer pieces, or none",
            )
    _check_wide_wave(full, layout, problem, target)
    accumulators = math.ceil(layout.accumulators * layout.accumulator_bytes / 4)
    loads = math.ceil(layout.accumulators * layout.unroll * sum(element.bytes for element in problem.inputs) / 4)
    most = target.registers_of(layout.workgroup_size, layout.subgroup_size)
    # The accumulators are held twice where a step begins before the last one has ended, and where the partial step may keep the old ones.
    check(
        2 * accumulators + loads <= most,
        f"thread {list(full.thread or ())}: {layout.accumulators} {problem.accumulator.name} accumulators a lane, held twice, and loads of "
        f"{loads} registers, {layout.unroll} steps at a time, need {2 * accumulators + loads} registers, above {most} of {target.name} at "
        f"{layout.workgroup_size} threads: use fewer elements, fewer steps (partial_reduction) or fewer subgroups",
    )
    check(
        layout.shared_memory_limit <= memory,
        f"workgroup {list(full.workgroup or ())}: {layout.slots} rows x {layout.columns.subgroups} subgroups x "
        f"{layout.accumulator_bytes} bytes are {layout.shared_memory_bytes} bytes of shared memory, "
        f"above the {memory} of {target.name}: use fewer rows a workgroup",
    )


def _check_wide_wave(full: Tuning, layout: Layout, problem: Problem, target: Target) -> None:
    """Subgroups of 64 where the hardware's own are of 32 (gfx11, gfx12): see `gpu_lanes`."""
    narrow, results = min(target.subgroup_sizes or (1,)), layout.rows.held * layout.inner.held
    if layout.subgroup_size == narrow or layout.columns.lanes <= 16:
        return
    check(
        len(problem.accumulators) == 1,
        f"subgroup_size {layout.subgroup_size}: the {len(problem.accumulators)} accumulators of {problem.op.asked} don't cross its halves "
        f"on {target.name}: use subgroups of {narrow}, or at most 16 lanes along the reduced loop",
    )
    # The rows of 16 lanes are read into scalar registers, four a result and word, of which a wave has a hundred.
    check(
        results * layout.accumulator_bytes <= MAX_WIDE_WAVE_BYTES,
        f"thread {list(full.thread or ())}: {results} results a lane of {layout.accumulator_bytes} bytes are above "
        f"{MAX_WIDE_WAVE_BYTES} bytes in subgroups of {layout.subgroup_size} on {target.name}: use fewer, or subgroups of {narrow}",
    )


def _that_fits(full: Tuning, problem: Problem, target: Target) -> str:
    """As JSON: the tuning with other lanes, if it is one; else the default."""
    changed = fitted(full, problem, target)
    try:
        verify_problem(changed, problem, target)
    except TuningError:
        changed = default_tuning(problem, target)
    return changed.to_json()


def _check_cpu(full: Tuning, layout: Layout, problem: Problem) -> None:
    size = layout.columns.size
    most = MAX_CPU_ACCUMULATOR_BYTES // layout.accumulator_bytes
    factors = f"{layout.columns.subgroups} subgroups x {layout.columns.lanes} lanes x {layout.columns.elements} elements"
    check(
        size <= most,
        f"partial_reduction {full.reduction_tile[-1]}: {factors} = {size} {problem.accumulator.name} accumulators are "
        f"{size * layout.accumulator_bytes} bytes, above the {MAX_CPU_ACCUMULATOR_BYTES} that stay in a core's cache: "
        f"use at most {most} accumulators",
    )
    check(
        size * layout.unroll <= MAX_CPU_STEP,
        f"partial_reduction {full.reduction_tile[-1]} is above {MAX_CPU_STEP}, the most that a step takes on the cpu: use a smaller tile",
    )
    for i, (name, tile) in enumerate(layout.kept.items()):
        check(
            tile.elements <= MAX_CPU_THREAD_ROWS,
            f"thread {list(full.thread or ())}: {tile.elements} along {name} a lane is above {MAX_CPU_THREAD_ROWS}: "
            f"use a workgroup tile of at most {MAX_CPU_THREAD_ROWS * tile.lanes * tile.subgroups} there, not {(full.workgroup or ())[i]}",
        )


def _check_iree(full: Tuning, layout: Layout) -> None:
    """IREE's VectorDistribute re-lays the subgroups' partials over the lanes along K; those that find no lane are dropped, silently."""
    check(
        full.split_reduction is None,
        f"split_reduction {list(full.split_reduction or ())}: IREE's pipeline takes K whole: leave it out, or use strategy 'subgroup'",
    )
    subgroups, lanes = layout.columns.subgroups, layout.columns.lanes
    needed = 1 << (subgroups - 1).bit_length()
    check(
        lanes >= needed,
        f"lane_basis {[list(entries) for entries in full.lane_basis or ()]}: with {lanes} lanes and {subgroups} subgroups along the "
        f"reduced loop strategy 'iree' returns wrong results: it needs at least {needed} lanes there; "
        "use them, fewer subgroups, or strategy 'subgroup'",
    )
