"""A benchmark as a picture: bandwidth over the array's size, one line for each contender."""

from __future__ import annotations

import importlib.util
from collections import defaultdict
from typing import Any

from .bench import RIGHT, Benchmark
from .bench_report import Row, rows
from .errors import InputError, check

_COLOURS = {"numpy": "tab:blue", "subgroup": "tab:orange", "iree": "tab:green", "default": "tab:red", "read x1": "0.75"}
_STYLES = ("-", "--", ":", "-.")  # of the first op and axis, of the second, ...


def check_plots() -> None:
    """Raises InputError where Matplotlib is not installed: known before minutes are spent on measuring."""
    found = importlib.util.find_spec("matplotlib") is not None
    check(found, "--plot needs Matplotlib, which is not installed: pip install 'iree_reduce_plugin[plot]'", InputError)


def plot(found: Benchmark, path: str) -> None:
    """Writes the picture. Where several ops or axes were measured, each has lines of its own."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # no display is needed
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes: Any = figure.add_subplot()
    lines = _lines(found)
    kinds = list(dict.fromkeys(kind for kind, _ in lines))
    for (kind, contender), points in lines.items():
        label = contender if len(kinds) == 1 else f"{contender}, {kind}"
        style, colour = _STYLES[kinds.index(kind) % len(_STYLES)], _COLOURS.get(contender, "0.5")
        axes.plot([row.bytes for row in points], [row.gb_s for row in points], style, marker="o", color=colour, label=label)
    if found.bandwidth is not None:
        axes.axhline(found.bandwidth.best / 1e9, color="0.3", linewidth=1, label="reading memory")
    axes.set(xlabel="the array's size", ylabel="GB/s", title=found.device, ylim=(0, None))
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda size, _: _size(size))
    axes.legend()
    figure.savefig(path, format="png")


def _size(nbytes: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if nbytes < 1024:
            return f"{nbytes:.4g} {unit}"
        nbytes /= 1024
    return f"{nbytes:.4g} GiB"


def _lines(found: Benchmark) -> dict[tuple[str, str], list[Row]]:
    """By op and axis, and contender; in the order of sizes."""
    lines = defaultdict(list)
    for row in sorted(rows(found), key=lambda row: row.bytes):
        if row.state == RIGHT and row.gb_s is not None:
            kind = f"{row.op} axis {row.axis}" + (f" dtype {row.dtype}" if row.dtype else "")
            lines[kind, row.contender].append(row)
    return lines
