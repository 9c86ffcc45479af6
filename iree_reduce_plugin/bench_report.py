"""What a benchmark measured, as rows: in a table for readers, as CSV and JSON for programs. All three are made of the same rows."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .bench import RIGHT, WRONG, Benchmark, Contender
from .bench_bandwidth import BEYOND, Rate, best_rate
from .bench_cases import Case, axis_text
from .toolchain import iree_version

SCHEMA = 1


@dataclass(frozen=True)
class Row:
    """One contender of one case; a time or a figure made of one is None where there is none.

    bytes: of the array. gb_s: of these, 10^9 a second, by the shortest time. ratio: the shortest time by NumPy's shortest.
    fraction: gb_s by what the machine can read: this array or memory, whichever is faster (see `bench_bandwidth`).
    state: `right`; `WRONG` or `absent`, and the reason.
    """

    shape: str
    op: str
    axis: str
    dtype: str | None
    bytes: int
    contender: str
    state: str
    min_s: float | None
    median_s: float | None
    gb_s: float | None
    ratio: float | None
    fraction: float | None
    reason: str

    @property
    def title(self) -> str:
        return f"{self.op} {self.shape} axis {self.axis}" + (f" dtype {self.dtype}" if self.dtype else "")


def rows(found: Benchmark) -> list[Row]:
    """In the order of the cases; in each the contenders, then what only read the array."""
    return [row for case in found.cases for row in _of_case(case, found)]


def table(found: Benchmark) -> str:
    """Aligned columns, then what the figures are, and why who is not there isn't."""
    lines: list[tuple[str, ...]] = [("", "", "min", "median", "GB/s", "to NumPy", "of reading")]
    notes: list[str] = []
    title = None
    for row in rows(found):
        name = row.contender if row.state == RIGHT else f"{row.contender} [{_note(notes, row)}]"
        lines.append((row.title if row.title != title else "", name, *_figures(row)))
        title = row.title
    return "\n".join([*aligned(lines, left=2), "", *_explained(found), *(f"[{i + 1}] {note}" for i, note in enumerate(notes))])


def as_csv(data: Sequence[dict[str, Any]]) -> str:
    """Columns by name; an empty cell is what there isn't."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(data[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(data)
    return out.getvalue()


def as_json(found: Benchmark) -> str:
    bandwidth = None if found.bandwidth is None else dataclasses.asdict(found.bandwidth)
    data = {
        "schema": SCHEMA,
        "device": found.device,
        "rounds": found.rounds,
        "versions": versions(),
        "bandwidth": bandwidth,
        "rows": [dataclasses.asdict(row) for row in rows(found)],
    }
    return json.dumps(data, indent=2) + "\n"


def versions() -> dict[str, str | None]:
    from . import __version__

    parts = {f"iree_{part}": iree_version(part) for part in ("compiler", "runtime")}
    return {"iree_reduce_plugin": __version__, **parts, "numpy": np.__version__, "python": platform.python_version()}


def aligned(lines: Sequence[Sequence[str]], left: int) -> list[str]:
    """Columns of equal width, the first `left` of them to the left."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    cells = [[(str.ljust if i < left else str.rjust)(cell, widths[i]) for i, cell in enumerate(line)] for line in lines]
    return ["  ".join(line).rstrip() for line in cells]


def _of_case(case: Case, found: Benchmark) -> list[Row]:
    numpys = next((one.minimum for one in case.contenders if one.name == "numpy"), None)
    reading = best_rate(case.readers, case.nbytes)
    return [_row(one, case, numpys, _ceiling(reading, found)) for one in (*case.contenders, *_the_best(case.readers))]


def _row(one: Contender, case: Case, numpys: float | None, ceiling: float | None) -> Row:
    spec, shortest = case.spec, one.minimum
    rate = case.nbytes / shortest if shortest else None
    return Row(
        shape=spec.shape,
        op=spec.op,
        axis=axis_text(spec.axis),
        dtype=spec.dtype,
        bytes=case.nbytes,
        contender=one.name,
        state=one.state,
        min_s=shortest,
        median_s=one.median,
        gb_s=rate / 1e9 if rate else None,
        ratio=shortest / numpys if shortest and numpys else None,
        fraction=rate / ceiling if rate and ceiling else None,
        reason=one.reason,
    )


def _the_best(readers: Sequence[Contender]) -> list[Contender]:
    """Of each number of threads the fastest: whether one core reads as much as all is worth a row."""
    fastest: dict[str, Contender] = {}
    for one in sorted((one for one in readers if one.seconds), key=lambda one: min(one.seconds)):
        name, _ = one.name.rsplit(" ", 1)
        fastest.setdefault(name, dataclasses.replace(one, name=name))
    return sorted(fastest.values(), key=lambda one: one.name)


def _ceiling(reading: Rate | None, found: Benchmark) -> float | None:
    """Bytes a second; None where the device has memory of its own."""
    rates = [reading.bytes_per_second] if reading else []
    return max([*rates, *([found.bandwidth.best] if found.bandwidth else [])], default=None)


def _note(notes: list[str], row: Row) -> int:
    text = f"{row.contender}: {row.reason}"
    if text not in notes:
        notes.append(text)
    return notes.index(text) + 1


def _figures(row: Row) -> tuple[str, ...]:
    if row.min_s is None:
        return (WRONG if row.state == WRONG else "-", *["-"] * 4)
    ratio, fraction = ("-" if one is None else f"{one:.2f}" for one in (row.ratio, row.fraction))
    return duration(row.min_s), duration(row.median_s or 0.0), f"{row.gb_s:.1f}", ratio, fraction


def duration(seconds: float) -> str:
    """Four digits, in microseconds or milliseconds.

    >>> duration(0.0123456), duration(1.5e-6)
    ('12.35 ms', '1.5 us')
    """
    return f"{seconds * 1e6:.4g} us" if seconds < 1e-3 else f"{seconds * 1e3:.4g} ms"


def _explained(found: Benchmark) -> list[str]:
    lines = [
        f"{found.device}; NumPy in one thread; {found.rounds} rounds, with all contenders in each",
        ", ".join(f"{part} {version}" for part, version in versions().items()),
    ]
    if found.bandwidth is not None:
        bandwidth, cache = found.bandwidth, found.bandwidth.cache
        of_cache = "" if cache is None else f" (the last-level cache has {cache >> 20} MiB)"
        lines.append(f"memory, {bandwidth.bytes >> 20} MiB{of_cache}: read {_each(bandwidth.reading)}; copied {_each(bandwidth.copying)}")
        if cache is not None and bandwidth.bytes < (BEYOND - 1) * cache:
            lines.append("that array is too small for that cache: it says too much of memory")
    lines.append("to NumPy: the shortest time as a part of NumPy's; below 1 is faster. subgroup: this package; default, iree: IREE's own")
    if any(case.readers for case in found.cases):
        lines.append("GB/s: the array's bytes by the shortest time; of reading: that by what N threads read of it (read xN), or of memory")
    else:
        lines.append("GB/s: the array's bytes by the shortest time, which includes the way to the device and back")
    return lines


def _each(rates: Sequence[Rate]) -> str:
    return ", ".join(f"{r.bytes_per_second / 1e9:.1f} GB/s x{r.threads} ({r.method})" for r in rates)
