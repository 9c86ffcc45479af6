"""The command `bench`: measures this package's kernels beside NumPy and IREE, or shows what those for an AMD GPU are made of."""

from __future__ import annotations

import argparse
import dataclasses
import json as json_text
import sys
from collections.abc import Sequence

from .bench import WRONG, Benchmark, benchmark, silent
from .bench_bandwidth import default_bytes
from .bench_cases import RIVALS, Setting, Spec
from .cli_files import STANDARD_OUTPUT, check_files, write
from .devices import find_device
from .errors import InputError, check
from .plan import make_job
from .shape_text import parse_shape
from .targets import find_target


def bench_command(options: argparse.Namespace) -> int:
    rivals = _rivals(options.rivals)
    specs = _specs(options)
    check(options.plot != STANDARD_OUTPUT, "--plot -: a picture goes to a file; give its path, e.g. sums.png", InputError)
    check_files(options.csv, options.json, options.plot)
    if options.target is not None:
        return _figures(options, specs, rivals)
    if options.plot is not None:
        from .bench_plot import check_plots

        check_plots()
    setting = Setting(find_device(options.device or "cpu"), rivals, options.tuning, options.seed, options.timeout)
    _check_tuning(specs, options.tuning, setting.device.target)
    return report(measured(setting, specs, options.rounds, options.read_size), options.csv, options.json, options.plot)


def measured(setting: Setting, specs: Sequence[Spec], rounds: int, read_bytes: int | None) -> Benchmark:
    """The cases compiled, checked and measured, with progress for whoever looks on. read_bytes: None: as many as it takes."""
    progress = _line if sys.stderr.isatty() else silent
    cases = []
    for i, spec in enumerate(specs):
        progress(f"compiling and checking {i + 1} of {len(specs)}: {spec.op} of {spec.shape}")
        cases.append(setting.case(spec))
    found = benchmark(setting, cases, rounds, default_bytes() if read_bytes is None else read_bytes, progress)
    progress("")
    return found


def report(found: Benchmark, csv: str | None, json: str | None, plot: str | None) -> int:
    """Prints the table, writes the files, and gives the exit code: 1 where a result is wrong."""
    from .bench_report import as_csv, as_json, rows, table

    _print(table(found), csv, json)
    if csv is not None:
        write(as_csv([dataclasses.asdict(row) for row in rows(found)]), csv)
    if json is not None:
        write(as_json(found), json)
    if plot is not None:
        from .bench_plot import plot as draw

        draw(found, plot)
    return 1 if any(row.state == WRONG for row in rows(found)) else 0


def _figures(options: argparse.Namespace, specs: Sequence[Spec], rivals: Sequence[str]) -> int:
    from .bench_figures import figures, table
    from .bench_report import as_csv

    check(options.plot is None, "--plot: with --target nothing is timed, so there is nothing to draw; use --csv or --json", InputError)
    _check_tuning(specs, options.tuning, options.target)
    rows = figures(specs, options.target, rivals, options.tuning, options.timeout)
    _print(table(rows, options.target), options.csv, options.json)
    if options.csv is not None:
        write(as_csv(rows), options.csv)
    if options.json is not None:
        write(json_text.dumps(rows, indent=2) + "\n", options.json)
    return 0


def _specs(options: argparse.Namespace) -> list[Spec]:
    """The cases, each once; all are known to make sense before the first one is compiled."""
    shapes = [text for shape in options.shape for text in ([shape] if options.sizes is None else _sweep(shape, *options.sizes))]
    specs = [Spec(shape, options.op, options.axis, options.dtype) for shape in dict.fromkeys(shapes)]
    for spec in specs:
        _ = spec.problem
    return specs


def _check_tuning(specs: Sequence[Spec], tuning: object, target: str) -> None:
    """Raises TuningError, before the first one is compiled, where it doesn't fit one of them."""
    for spec in specs:
        make_job(spec.problem, tuning, find_target(target))


def _sweep(shape: str, low: int, high: int) -> list[str]:
    """The shape with its first extent such that the array has `low` bytes, and 4 times as many, up to `high`."""
    (_, *others), element = parse_shape(shape)
    row = element.bytes
    for extent in others:
        row *= extent
    check(0 < row <= low, f"sizes: {low} bytes are less than one row of {shape}, which has {row}; begin at {row} or more", InputError)
    shapes = []
    while low <= high:
        shapes.append("x".join([str(low // row), *map(str, others), element.name]))
        low *= 4
    return shapes


def _rivals(text: str) -> tuple[str, ...]:
    given = tuple(part for part in text.split(",") if part)
    for name in given:
        check(name in RIVALS, f"rivals {text!r}: {name!r} is none; use some of {','.join(RIVALS)}", InputError)
    return given


def _print(text: str, *files: str | None) -> None:
    """The table, unless what a program reads goes there."""
    if STANDARD_OUTPUT not in files:
        print(text)


def _line(text: str) -> None:
    print(f"\r\033[K{text[:100]}", end="", file=sys.stderr, flush=True)
