"""Checks a GPU: results of the test matrix bit for bit, bandwidth beside the device's own copy, and a block to paste into a report."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]  # the checkout that this file lies in is what is checked

try:
    import gpu_device
    import gpu_report
    import matrix_run
    from gpu_children import CHILD, Finding, work_through
except ModuleNotFoundError as missing:
    print(
        f"error: there is no module {missing.name!r}: gpu_check.py needs a clone of the repository, with tests/ beside tools/, and the "
        "package's dependencies: run `pip install .` in the clone",
        file=sys.stderr,
    )
    sys.exit(2)

from iree_reduce_plugin.errors import InputError, ReduceError, check  # noqa: E402
from iree_reduce_plugin.problem import Problem  # noqa: E402
from iree_reduce_plugin.shape_text import parse_shape  # noqa: E402

RIGHT, NOT_RIGHT, REFUSED, INTERRUPTED = 0, 1, 2, 130
PART = 3  # one cell in so many, unless all are asked for
SHAPES = ("4096x4096xf32", "1x16777216xf32", "16x1000003xf32", "1024x1024xf32", "4096x4096xf16", "64xf32")
LARGE = "16384x8192xf32"  # beyond the caches of every GPU; too much for one in software
_EXAMPLES = """\
examples:
  python tools/gpu_check.py
      the first usable GPU, some minutes; paste the block at the end into a report
  python tools/gpu_check.py --device hip --full -o report.md
      every cell of the matrix
  python tools/gpu_check.py --device vulkan --cells 10 --rounds 0
      ten cells, nothing timed; Vulkan in software is taken where it is named, and the block says so
  python tools/gpu_check.py --cells 0 --shape 4096x4096xf32 --shape 32x1000000xf16 --rounds 50
      only the bandwidth, of these shapes
  python tools/gpu_check.py --device hip --cell sum-4096xf32-default-random
      one cell again, on the same data; the block names the cells that were not right

exit codes: 0 all right; 1 something was wrong, refused, or crashed; 2 bad usage, or no GPU; 130 on Ctrl-C
"""


def main(arguments: Sequence[str] | None = None, child: Sequence[str] = CHILD) -> int:
    """child: the command of the processes that the work is left to."""
    options = _parser().parse_args(arguments)
    os.environ.setdefault("MESA_SHADER_CACHE_DISABLE", "true")  # Mesa's cache ignores the vector width, which fixes the subgroup size
    try:
        _check_output(options.output)
        device = gpu_device.choose(options.device)
        cells, total = _cells(options, device.target)
        shapes = _shapes(options, gpu_device.is_software(device))
        check(bool(cells or shapes), "nothing is left to do: give --cells or --rounds above 0", InputError)
    except (ReduceError, ValueError) as e:  # NumPy's of an axis, too
        print(f"error: {e}", file=sys.stderr)
        return REFUSED
    about = gpu_device.describe(device)
    for name, value in about[:2]:
        print(f"{name:8} {value}", file=sys.stderr)
    names = [str(cell) for cell in cells]
    try:
        found = work_through(names, ["cells", device.name], options.limit, _Progress(len(names)), child)
        times = work_through(shapes, ["time", device.name, str(options.rounds)], 4 * options.limit, _Progress(len(shapes)), child)
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        return INTERRUPTED
    text = gpu_report.block(device, about, list(zip(found, cells, strict=True)), times, total)
    print(text)
    if options.output:
        Path(options.output).write_text(text + "\n")
    return RIGHT if all(finding.state == "right" for finding in [*found, *times]) else NOT_RIGHT


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=gpu_device.GPUS, help="default: the first of these that is a usable GPU")
    parser.add_argument("--full", action="store_true", help=f"all cells of the matrix, not one in {PART}")
    parser.add_argument("-o", dest="output", metavar="FILE", help="write the block there, too")
    parser.add_argument("--cells", type=_count, metavar="N", help="that many cells, spread over the matrix; 0: none")
    parser.add_argument("--cell", action="append", metavar="NAME", help="this cell only, and nothing is timed; may be repeated")
    parser.add_argument("--shape", action="append", metavar="4x4096xf32", help="time this instead of the usual shapes; may be repeated")
    parser.add_argument("--rounds", type=_count, default=20, metavar="N", help="of each timing; 0: nothing is timed (default: %(default)s)")
    parser.add_argument("--limit", type=_seconds, default=180.0, metavar="S", help="seconds for a cell, compiled and run (default: 180)")
    return parser


def _cells(options: argparse.Namespace, target: str) -> tuple[list[matrix_run.Cell], int]:
    """The cells that are asked for, and how many there are."""
    every = [*matrix_run.cover(target), *matrix_run.small(target)]
    if options.cell:
        by_name = {str(cell): cell for cell in every}
        for name in options.cell:
            check(name in by_name, f"cell {name!r} is none of the {len(every)} of {target}: give one that a report names", InputError)
        return [by_name[name] for name in dict.fromkeys(options.cell)], len(every)
    if options.cells is not None:
        count = min(options.cells, len(every))
        return [every[i * len(every) // count] for i in range(count)], len(every)
    return every[:: 1 if options.full else PART], len(every)


def _shapes(options: argparse.Namespace, software: bool) -> list[str]:
    """The shapes that are timed, all of which have something to reduce."""
    if not options.rounds or (options.cell and not options.shape):
        return []
    for text in options.shape or ():
        problem = Problem.of(*parse_shape(text))
        check(not problem.is_empty and problem.columns > 1, f"shape {text}: nothing to reduce; give e.g. 4096x4096xf32", InputError)
    return list(dict.fromkeys(options.shape or [*SHAPES, *([] if software else [LARGE])]))


class _Progress:
    """A line on standard error for what is not right, and now and then for the rest."""

    def __init__(self, total: int):
        self._total, self._done = total, 0

    def __call__(self, finding: Finding) -> None:
        self._done += 1
        if finding.state != "right":
            print(f"[{self._done}/{self._total}] {finding.state.upper()} {finding.name}: {finding.detail}"[:500], file=sys.stderr)
        elif self._done % 10 == 0 or self._done == self._total or finding.figures:
            print(f"[{self._done}/{self._total}] {finding.name}", file=sys.stderr)


def _check_output(path: str | None) -> None:
    """Before the minutes that it takes to have something to write."""
    if path is None:
        return
    try:
        with open(path, "a"):
            pass
    except OSError as e:
        raise InputError(f"output file {path!r} can't be written: {e.strerror or e}; give another path") from None


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 0 or more")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return seconds


if __name__ == "__main__":
    sys.exit(main())
