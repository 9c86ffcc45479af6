"""For AMD targets, which need not be here: what the kernels of this package and of IREE are made of, side by side. Nothing is timed."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from .bench_cases import OURS, Spec, axis_text, strategy_job
from .bench_report import aligned
from .errors import InputError, ReduceError, check
from .plan import build_plan
from .targets import Target, find_target

Row = dict[str, Any]

_FIGURES = ("kernels", "workgroups", "threads", "vgprs", "sgprs", "spills", "shared_memory_bytes", "barriers", "barriers_in_loop", "loads")
_HEADINGS = ("kernels", "workgroups", "threads", "VGPRs", "SGPRs", "spills", "shared memory", "barriers", "in loops", "loads")


def figures(specs: Sequence[Spec], target: str, rivals: Sequence[str], tuning: object, timeout: float) -> list[Row]:
    """A row for each strategy of each case. Raises for this package's own; a rival that can't be compiled has a reason and no figures."""
    the_target = find_target(target)
    check(the_target.is_rocm, f"target {target}: only those of AMD have figures; leave --target out to measure on a device", InputError)
    of = functools.partial(_row, target=the_target, tuning=tuning, timeout=timeout)
    return [of(spec, name) for spec in specs for name in (OURS, *(r for r in ("iree", "default") if r in rivals))]


def table(rows: Sequence[Row], target: str) -> str:
    lines: list[tuple[str, ...]] = [("", "", *_HEADINGS)]
    notes: list[str] = []
    title = None
    for row in rows:
        text, name = f"{row['op']} {row['shape']} axis {row['axis']}", row["contender"]
        if row["reason"]:
            note = f"{name}: {row['reason']}"
            notes = [*notes, *({note} - set(notes))]
            name = f"{name} [{notes.index(note) + 1}]"
        lines.append((text if text != title else "", name, *("-" if row[key] is None else str(row[key]) for key in _FIGURES)))
        title = text
    said = f"{target}: static figures of the assembly; shared memory in bytes a workgroup; of several kernels the largest, counts added up"
    return "\n".join([*aligned(lines, left=2), "", said, *(f"[{i + 1}] {note}" for i, note in enumerate(notes))])


def _row(spec: Spec, name: str, target: Target, tuning: object, timeout: float) -> Row:
    about = {
        "shape": spec.shape,
        "op": spec.op,
        "axis": axis_text(spec.axis),
        "dtype": spec.dtype,
        "target": target.name,
        "contender": name,
    }
    try:
        job, source = strategy_job(name, spec.problem, tuning, target)
        entries = build_plan(job, source, timeout=timeout).report["dispatches"]
    except ReduceError as e:
        if name == OURS:
            raise
        return {**about, **dict.fromkeys(_FIGURES), "reason": str(e)}
    return {**about, **_summed(entries), "reason": ""}


def _summed(entries: Sequence[dict[str, Any]]) -> Row:
    """IREE may make several kernels of one reduction."""
    loads: dict[str, int] = {}
    for entry in entries:
        for width, count in entry["wide_loads"].items():
            loads[width] = loads.get(width, 0) + count
    return {
        "kernels": len(entries),
        "workgroups": "+".join("x".join("?" if n is None else str(n) for n in entry["workgroup_count"]) for entry in entries),
        "threads": "+".join(str((entry["workgroup_size"] or ["?"])[0]) for entry in entries),
        **{key: max(entry[key] for entry in entries) for key in ("vgprs", "sgprs", "spills", "shared_memory_bytes")},
        "barriers": sum(sum(entry["barriers"].values()) for entry in entries),
        "barriers_in_loop": sum(entry["barriers"]["in_loop"] for entry in entries),
        "loads": "+".join(f"{count} {width}" for width, count in loads.items() if count) or "0",
    }
