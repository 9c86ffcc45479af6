"""The report of a compiled plan, and the check that IREE took our schedule, which its exit code does not prove."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .assembly import Kernel
from .errors import CompileError
from .exactness import is_exact
from .job import Job, Part

SCHEMA = 1

Facts = Mapping[str, Any]  # of one dispatch: the keys of a report's entry, and "pipeline", IREE's name of the lowering that ran


def build_report(job: Job, tuning_source: str, dispatches: Sequence[Facts]) -> dict[str, Any]:
    """The report as plain data for JSON; null (None) where a target has no such figure.

    tuning_source: where the tuning came from, e.g. `given` or `default`. dispatches: in execution order, as an Artifact holds them.
    `exact` says whether the result is the reference's, bit for bit, or near it (see `exactness`).
    """
    return {
        "schema": SCHEMA,
        "target": job.target.name,
        "strategy": job.strategy,
        "tuning": None if job.tuning is None else job.tuning.to_dict(),
        "tuning_source": tuning_source,
        "exact": is_exact(job.problem, job.target),
        "dispatches": [dict(d) for d in dispatches],
    }


def dispatch_entry(facts: Facts, kernel: Kernel | None) -> dict[str, Any]:
    """One entry of the report's `dispatches`, from what the IR says and, on ROCm, from what the assembly says."""
    entry = {key: facts[key] for key in ("kernel", "workgroup_count", "workgroup_size", "subgroup_size", "bindings")}
    if kernel is None:
        return entry | dict.fromkeys(
            ("shared_memory_bytes", "vgprs", "sgprs", "spills", "barriers", "lane_ops", "wide_loads", "loads_in_flight")
        )
    return entry | {
        "shared_memory_bytes": kernel.shared_memory_bytes,
        "vgprs": kernel.vgprs,
        "sgprs": kernel.sgprs,
        "spills": kernel.spills,
        "barriers": {"in_loop": kernel.barriers_in_loop, "outside": kernel.barriers_outside},
        "lane_ops": kernel.lane_ops,
        "wide_loads": kernel.wide_loads,
        "loads_in_flight": kernel.loads_in_flight,
    }


def check_taken(job: Job, dispatches: Sequence[Facts], kernels: Mapping[str, Kernel]) -> None:
    """Raises CompileError, naming what was expected and found, unless the job's schedule shaped every dispatch there is.

    The workgroup count is the layout's on every target. On a GPU the sizes are compared too, and on ROCm what the assembly says:
    the wave size, and the shared memory, which grows when accumulators did not stay in registers.
    """
    layout = job.layout
    if job.strategy != "subgroup" or layout is None or job.problem.is_settled:
        return
    if len(dispatches) != len(job.parts):
        raise CompileError(f"IREE did not take the schedule: expected {_count(len(job.parts))}, found {len(dispatches)}")
    for part, facts in zip(job.parts, dispatches, strict=True):
        _check_dispatch(part, facts, kernels)


def _count(dispatches: int) -> str:
    return f"{dispatches} dispatch" + "es" * (dispatches != 1)


def _check_dispatch(part: Part, facts: Facts, kernels: Mapping[str, Kernel]) -> None:
    layout = part.layout
    expected: dict[str, Any] = {"pipeline": "no_pipeline", "workgroup_count": layout.workgroup_count}
    found: dict[str, Any] = {key: facts[key] for key in ("pipeline", "workgroup_count")}
    if part.target.is_gpu:
        expected |= {"workgroup_size": [layout.workgroup_size, 1, 1], "subgroup_size": layout.subgroup_size}
        found |= {key: facts[key] for key in ("workgroup_size", "subgroup_size")}
        kernel = kernels.get(facts["kernel"])
        if kernel is not None:
            # Less than expected is a result that needs no elements: a sum joined by NaN.
            expected |= {"wave size": layout.subgroup_size, "shared memory": layout.shared_memory_bytes}
            least, most, shared = layout.shared_memory_bytes, layout.shared_memory_limit, kernel.shared_memory_bytes
            found |= {"wave size": kernel.subgroup_size, "shared memory": shared if shared > most else least}
    wrong = [f"{key} {expected[key]} expected, {found[key]} found" for key in expected if expected[key] != found[key]]
    if wrong:
        raise CompileError(f"IREE did not take the schedule: {facts['kernel']}: " + "; ".join(wrong))
