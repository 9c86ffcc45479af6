"""The block that somebody with a GPU pastes into a report: fenced, so that Markdown leaves its columns alone."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Sequence
from typing import Any

from gpu_children import Finding
from matrix import Cell

from iree_reduce_plugin.devices import Device

_NOTE = """\
GB/s: bytes the reduction reads; read + written by the copy; from the median. kernel/copy: the ratio of the two rates.
Times are of a call, over the rounds; they include the runtime's submission and the result's allocation, not the transfer from and to
the host. Small shapes show little but the submission."""


def block(
    device: Device, about: Sequence[tuple[str, str]], cells: Sequence[tuple[Finding, Cell]], times: Sequence[Finding], total: int
) -> str:
    """total: the cells that there are for the target."""
    lines = [f"{name:8} {value}" for name, value in about]
    if cells:
        lines += ["", _count([finding for finding, _ in cells]) + f" (of {total} for this target)"]
        for finding, cell in cells:
            if finding.state != "right":
                lines += _cell(device, finding, cell)
    if times:
        lines += ["", *_table(times), *_NOTE.splitlines()]
        lines += [f"{t.state.upper()}: iree-reduce-plugin run --device {device.name} --shape {t.name}" for t in times if t.state != "right"]
    return "\n".join(["```text", *(line.replace("```", "'''") for line in lines), "```"])


def _count(findings: Sequence[Finding]) -> str:
    states = Counter(finding.state for finding in findings)
    others = "".join(f", {count} {state}" for state, count in states.items() if state != "right")
    return f"{states['right']} cells right of {len(findings)}{others}"


def _cell(device: Device, finding: Finding, cell: Cell) -> list[str]:
    """What was found, and two commands that show it again: the cell itself, and the same kernel on other data."""
    line = f"{finding.state.upper()} {finding.name}: {finding.detail}"
    if finding.state == "not run":
        return [line]
    return [line, f"  python tools/gpu_check.py --device {device.name} --cell {finding.name}", f"  {_run(device, cell)}"]


def _run(device: Device, cell: Cell) -> str:
    """The same kernel by the command line, on data of its own."""
    shape = "x".join([*map(str, cell.shape), cell.dtype])
    command = ["iree-reduce-plugin", "run", "--device", device.name, "--shape", shape, "--op", cell.op]
    given = (
        ("--axis", None if cell.axis == -1 else cell.axis),
        ("--dtype", cell.out_dtype),
        ("--initial", cell.initial),
        ("--tuning", cell.tuning and json.dumps(cell.tuning)),
    )
    for option, value in given:
        if value is not None:
            command += [option, str(value)]
    return shlex.join(command)


def _table(times: Sequence[Finding]) -> list[str]:
    rows: list[tuple[str, ...]] = [("sum of rows", "kernel min", "median", "GB/s", "copy min", "median", "GB/s", "kernel/copy", "result")]
    for found in times:
        if "kernel" not in found.figures:
            rows.append((found.name, *["-"] * 7, f"{found.state.upper()}: {found.detail}"))
            continue
        right = "right" if found.state == "right" else "WRONG"
        rows.append((found.name, *_figures(found.figures), right))
    widths = [max(len(row[i]) for row in rows) for i in range(8)]
    return ["  ".join([row[0].ljust(widths[0]), *(row[i].rjust(widths[i]) for i in range(1, 8)), row[8]]) for row in rows]


def _figures(figures: dict[str, Any]) -> list[str]:
    size, kernel, copy = figures["bytes"], figures["kernel"], figures["copy"]
    rates = size / kernel["median"] / 1e9, 2 * size / copy["median"] / 1e9
    parts = [(kernel, rates[0]), (copy, rates[1])]
    shown = [text for each, rate in parts for text in (_microseconds(each["min"]), _microseconds(each["median"]), f"{rate:.4g}")]
    return [*shown, f"{rates[0] / rates[1]:.2f}"]


def _microseconds(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us"
