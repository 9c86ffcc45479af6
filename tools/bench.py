"""Measures a set of standard shapes on this machine by `iree-reduce-plugin bench`, and says of each whether it is as fast as it should be.

A goal is met by a time of at most so many of NumPy's, or by moving 88 % of what the cores can read (the array or memory, whichever is
faster). Nothing but a wrong result changes the exit code: times are a machine's, at that moment.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # the checkout that this file lies in is what is measured

from iree_reduce_plugin.bench import RIGHT, Benchmark  # noqa: E402
from iree_reduce_plugin.bench_cases import OURS, RIVALS, Setting, Spec  # noqa: E402
from iree_reduce_plugin.bench_report import aligned, rows  # noqa: E402
from iree_reduce_plugin.cli_bench import measured, report  # noqa: E402
from iree_reduce_plugin.cli_files import STANDARD_OUTPUT, check_files  # noqa: E402
from iree_reduce_plugin.devices import find_device  # noqa: E402
from iree_reduce_plugin.errors import InputError, ReduceError, check  # noqa: E402

FINE, FAILED, REFUSED, INTERRUPTED = 0, 1, 2, 130
ENOUGH = 0.88  # of what can be read: no kernel has much more to win

_EXAMPLES = """\
examples:
  python tools/bench.py
      the CPU, about a minute
  python tools/bench.py --rounds 101 --csv bench.csv --json bench.json
  python tools/bench.py --overhead
      what a call costs besides its kernel, and the first call of a process
  python tools/bench.py --target gfx942
      for an AMD GPU that need not be here: what the kernels are made of
  IREE_REDUCE_TINYGRAD=tinygrad python tools/bench.py --target gfx942 --emulate
      how many instructions they execute, of some small shapes

exit codes: 0 measured; 1 a result was wrong, or something failed; 2 bad usage; 130 on Ctrl-C
"""


@dataclass(frozen=True)
class Standard:
    """A case, and the part of NumPy's time that it should take at most."""

    name: str
    spec: Spec
    goal: float


STANDARD = (
    Standard("rows", Spec("4096x4096xf32"), 0.6),
    Standard("all", Spec("4096x4096xf32", axis=None), 0.55),
    Standard("columns", Spec("4096x4096xf32", axis=0), 0.65),
    Standard("few rows", Spec("16x1000003xf32"), 0.65),
    Standard("wide columns", Spec("16x1000003xf32", axis=0), 0.7),
    Standard("one row", Spec("1x16777216xf32"), 0.55),
    Standard("small rows", Spec("1024x1024xf32"), 0.6),
    Standard("all of f64", Spec("4096x2048xf64", axis=None), 0.7),
    Standard("rows of i32", Spec("4096x4096xi32"), 0.3),
    Standard("rows of f16", Spec("4096x4096xf16"), 0.1),
    Standard("maxima of rows", Spec("4096x4096xf32", "max"), 0.75),
)


def main(arguments: Sequence[str] | None = None, standard: Sequence[Standard] = STANDARD) -> int:
    options = _parser().parse_args(arguments)
    try:
        check(options.target is not None or not options.emulate, "--emulate is of an AMD target: give it, e.g. --target gfx942", InputError)
        timed = not (options.overhead or options.target)
        unused = [f"--{name}" for name in ("csv", "json", "plot") if getattr(options, name)]
        check(timed or not unused, f"{' '.join(unused)}: written of timings only; leave it out with --target and --overhead", InputError)
        check(options.plot != STANDARD_OUTPUT, "--plot -: a picture is not text; give a file", InputError)
        check_files(options.csv, options.json, options.plot)
        if options.plot:
            from iree_reduce_plugin.bench_plot import check_plots

            check_plots()
        return _run(options, standard)
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        return INTERRUPTED
    except (ReduceError, OSError, RuntimeError) as e:
        print(f"error: {e}", file=sys.stderr)
        return REFUSED if isinstance(e, ValueError) else FAILED


def _run(options: argparse.Namespace, standard: Sequence[Standard]) -> int:
    if options.overhead:
        import bench_overhead

        print(bench_overhead.overhead(options.rounds))
        return FINE
    if options.target:
        return _on_target(options.target, options.emulate, [one.spec for one in standard])
    setting = Setting(find_device(options.device))
    found = measured(setting, [one.spec for one in standard], options.rounds, None)
    code = report(found, options.csv, options.json, options.plot)
    print("\n" + goals(found, standard))
    return code


def goals(found: Benchmark, standard: Sequence[Standard]) -> str:
    """A line for each case, in their order, and how many goals are met."""
    ours = [row for row in rows(found) if row.contender == OURS]
    lines: list[tuple[str, ...]] = [("", "", "goal", "to NumPy", "of reading", "goal met")]
    met = 0
    for one, row in zip(standard, ours, strict=True):
        by = _met(one.goal, row.ratio, row.fraction) if row.state == RIGHT else row.state
        met += by.startswith("yes")
        ratio, fraction = ("-" if figure is None else f"{figure:.2f}" for figure in (row.ratio, row.fraction))
        lines.append((one.name, row.title, f"{one.goal:.2f}", ratio, fraction, by))
    return "\n".join([*aligned(lines, left=2), "", f"{met} of {len(ours)} goals met"])


def _met(goal: float, ratio: float | None, fraction: float | None) -> str:
    if ratio is not None and ratio <= goal:
        return "yes"
    return "yes, by reading" if fraction is not None and fraction >= ENOUGH else "no"


def _on_target(target: str, emulate: bool, specs: Sequence[Spec]) -> int:
    if emulate:
        import bench_emulated

        return bench_emulated.emulated(target)
    from iree_reduce_plugin.bench_figures import figures, table
    from iree_reduce_plugin.compiler import DEFAULT_TIMEOUT

    print(table(figures(specs, target, RIVALS, None, DEFAULT_TIMEOUT), target))
    return FINE


def _parser() -> argparse.ArgumentParser:
    about, _, _ = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(description=about, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=_count, default=31, metavar="N", help="timings of each contender (default: %(default)s)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--device", default="cpu", metavar="NAME", help="one of `iree-reduce-plugin devices` (default: cpu)")
    what.add_argument("--target", metavar="GFX", help="an AMD target: nothing is timed, the kernels' figures are shown side by side")
    what.add_argument("--overhead", action="store_true", help="what a call costs on the CPU: warm, from the cache on disk, and compiled")
    parser.add_argument("--emulate", action="store_true", help="with --target: execute the kernels of small shapes, and count instructions")
    parser.add_argument("--csv", metavar="FILE", help="write the rows there")
    parser.add_argument("--json", metavar="FILE", help="write rows, bandwidth and versions there")
    parser.add_argument("--plot", metavar="FILE.png", help="draw bandwidth over size; needs Matplotlib")
    return parser


def _count(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 10**6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
