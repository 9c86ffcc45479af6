"""How many instructions the kernels of this package and of IREE execute, by an emulator of AMD's instruction set: see `emulate.py`."""

from __future__ import annotations

import dataclasses
import sys

from emulate import emulate, emulated_job, random_data
from hsaco_emulator import EmulatorMissing, open_emulator

from iree_reduce_plugin.bench_cases import OURS, Spec
from iree_reduce_plugin.bench_report import aligned
from iree_reduce_plugin.compare import compare
from iree_reduce_plugin.errors import ReduceError

SPECS = (Spec("4096xf32"), Spec("4x4096xf32"), Spec("16x4096xf32", axis=0), Spec("8x1000xf16"))  # small: each instruction is emulated
_KINDS = ("vector", "memory", "shared memory", "scalar", "wait", "barrier")


def emulated(target: str, specs: tuple[Spec, ...] = SPECS) -> int:
    """Prints the table and gives the exit code: 1 where a result is wrong, 2 where the emulator isn't here."""
    try:
        open_emulator()
    except EmulatorMissing as e:
        print(f"error: {e}", file=sys.stderr)
        return 2
    lines: list[tuple[str, ...]] = [("", "", "result", "workgroups", "executed", *_KINDS)]
    notes: list[str] = []
    for spec in specs:
        for name in (OURS, "iree", "default"):
            lines.append((f"{spec.op} {spec.shape} axis {spec.axis}" if name == OURS else "", name, *_row(spec, name, target, notes)))
    said = f"{target}: instructions executed by all workgroups; a subgroup's is one"
    print("\n".join([*aligned(lines, left=3), "", said, *notes]))
    return 1 if any("WRONG" in line for line in lines) else 0


def _row(spec: Spec, name: str, target: str, notes: list[str]) -> tuple[str, ...]:
    x = random_data(spec.problem)
    try:
        job = emulated_job(spec.problem, None, target, name)
        found = emulate(job, x)
    except ReduceError as e:
        notes.append(f"{spec.shape}, {name}: {e}")
        return ("-",) * (3 + len(_KINDS))
    ordered = job if name == OURS else dataclasses.replace(job, tuning=None)  # IREE adds in an order of its own
    right = compare(x, found.result, ordered).right and not found.run.out_of_range
    counts = (str(found.run.kinds.get(kind, 0)) for kind in _KINDS)
    return ("right" if right else "WRONG", str(found.workgroups), str(found.run.total), *counts)
