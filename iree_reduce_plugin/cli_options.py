"""The command line's options and help. What the values mean is decided by the library, so that it refuses them in one place."""

from __future__ import annotations

import argparse
import re
from typing import Any, NoReturn

from .compiler import DEFAULT_TIMEOUT, EMITS
from .element_types import NAMES
from .errors import InputError
from .functions_named import NAMED
from .ops import OPS
from .targets import TARGETS

PROGRAM = "iree-reduce-plugin"
FORMS = ("vmfb", *EMITS)

_ABOUT = "Reductions through IREE, laid out over workgroups, subgroups and lanes as a tuning says."
_EXAMPLES = """\
examples:
  iree-reduce-plugin run --shape 4x4096xf32
      sums each row on this machine, and compares with NumPy and with the exact reference
  iree-reduce-plugin compile --shape 4x4096xf32 --target gfx942 -o sum.vmfb
      compiles for an MI300X; no GPU is needed
  iree-reduce-plugin verify --shape 4x4096xf32 --target gfx942 --tuning test_data/reduce_4x4096.tuning.json
      whether a tuning fits, and what follows from it
  iree-reduce-plugin COMMAND --help
      more about one command

exit codes: 0 fine; 2 bad usage, input or tuning; 1 anything else; 130 on Ctrl-C
"""
_COMPILE = """\
examples:
  iree-reduce-plugin compile --shape 4x4096xf32 -o sum.vmfb
  iree-reduce-plugin compile --shape 4096xf32 --target gfx942 --report report.json --dump-dir dump \\
      --tuning '{"reduction": [1024], "lane_basis": [[64], [0]], "subgroup_basis": [[4], [0]]}'
  iree-reduce-plugin compile --shape 128x8192xf16 --op max --target gfx1100 --emit asm

the same kernel by IREE's own tool (of the compiler package, with its flags for the target):
  iree-reduce-plugin compile --shape 4x4096xf32 --target gfx942 --emit dispatch -o dispatch.mlir
  iree-reduce-plugin compile --shape 4x4096xf32 --target gfx942 --emit schedule -o schedule.mlir
  iree-compile dispatch.mlir --iree-codegen-transform-dialect-library=schedule.mlir \\
      --iree-input-demote-f64-to-f32=false --iree-hal-target-device=hip --iree-rocm-target=gfx942 -o sum.vmfb
  (its warning that tiling is not thread safe is about the ops which the schedule replaces; ignore it)
"""
_RUN = """\
examples:
  iree-reduce-plugin run --shape 4x4096xf32
  iree-reduce-plugin run --shape 16x1000xi32 --dtype i4 --axis 1 --keepdims --seed 7
  iree-reduce-plugin run --input x.npy --op max --output y.npy
      on an array that you saved with numpy.save
  iree-reduce-plugin run --shape 4x4096xf32 --tuning test_data/reduce_4x4096.tuning.json --device local-sync

exit code 1 says that the result differs from the reference
"""
_VERIFY = """\
examples:
  iree-reduce-plugin verify --shape 4x4096xf32 --target gfx942 --tuning test_data/reduce_4x4096.tuning.json
  iree-reduce-plugin verify --shape 4096xf32 --tuning \\
      '#iree_gpu.lowering_config<{workgroup = [0], reduction = [1024], thread_basis = [[64], [0]], subgroup_basis = [[4], [0]]}>'
  iree-reduce-plugin verify --shape 1000x32xf16 --target gfx1100
      the default tuning
"""
_EXPLAIN = """\
examples:
  iree-reduce-plugin explain --shape 16777216xf32 --target gfx942
      why the default tuning is as it is, how much of the GPU works, and how many bytes are on their way
  iree-reduce-plugin explain --shape 4x4096xf32 --target gfx942 --tuning test_data/reduce_4x4096.tuning.json
      of a tuning of your own
"""
_DEVICES = """\
examples:
  iree-reduce-plugin devices
  iree-reduce-plugin run --shape 4x4096xf32 --device cpu
      on one of those listed; IREE_REDUCE_DEVICE names the default
"""
_BENCH = """\
examples:
  iree-reduce-plugin bench --shape 4096x4096xf32 --shape 1024x1024xf32
      on the CPU, beside NumPy and IREE without a tuning
  iree-reduce-plugin bench --shape 1x1024xf32 --axis all --sizes 4K:256M --rivals numpy --csv sums.csv --plot sums.png
      sums of ever larger arrays
  iree-reduce-plugin bench --shape 4x4096xf32 --target gfx942
      for an AMD GPU that need not be here: what the kernels are made of

exit code 1 says that a result was wrong
"""


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors are InputError, in one line."""

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message} (see {self.prog} --help)")


def parser() -> Parser:
    """The whole command line. The subcommand's name is left in `command`."""
    top: Parser = _parser(Parser, prog=PROGRAM, description=_ABOUT, epilog=_EXAMPLES)
    top.add_argument("--version", action="store_true", help="print the versions of this package and of IREE's compiler and runtime")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)

    compile_ = _parser(commands.add_parser, "compile", help="compile a reduction", epilog=_COMPILE)
    _shape(compile_, required=True)
    _problem(compile_)
    _lowering(compile_)
    _target(compile_)
    _timeout(compile_)
    output = compile_.add_argument_group("output")
    output.add_argument("-o", metavar="FILE", dest="output", help="where to write; - is standard output, the default of text")
    output.add_argument("--emit", choices=FORMS, default="vmfb", help="what to write with -o: %(choices)s (default: %(default)s)")
    output.add_argument("--dump-dir", metavar="DIR", help="keep IREE's executable files there: sources, IR, assembly, .hsaco")
    output.add_argument("--report", metavar="FILE", help="write the figures of what was compiled, as JSON; - is standard output")

    run = _parser(commands.add_parser, "run", help="run a reduction and check its result", epilog=_RUN)
    source = run.add_mutually_exclusive_group(required=True)
    _shape(source)
    source.add_argument("--input", metavar="X.npy", help="the array; 2-byte raw data, as NumPy saves bf16, is taken as bf16")
    _problem(run)
    _lowering(run)
    _timeout(run)
    run.add_argument("--device", metavar="NAME", help="one of those that `devices` lists (default: a usable GPU, else cpu)")
    run.add_argument("--seed", type=_seed, default=0, metavar="N", help="of the random values for --shape (default: %(default)s)")
    run.add_argument("--output", metavar="Y.npy", help="write the result there")

    verify = _parser(commands.add_parser, "verify", help="check a tuning and show what follows from it; compiles nothing", epilog=_VERIFY)
    _shape(verify, required=True)
    _problem(verify)
    _lowering(verify)
    _target(verify)

    explain = _parser(commands.add_parser, "explain", help="say in words what a tuning does, and why", epilog=_EXPLAIN)
    _shape(explain, required=True)
    _problem(explain)
    _lowering(explain)
    _target(explain)
    _timeout(explain)

    _parser(commands.add_parser, "devices", help="list what is usable here, and why the rest is not", epilog=_DEVICES)
    about = "Measure kernels beside NumPy and IREE's own, and beside what the cores can read; --shape may be repeated."
    _bench(_parser(commands.add_parser, "bench", help="measure kernels beside NumPy and IREE's own", description=about, epilog=_BENCH))
    return top


def joined(arguments: list[str]) -> list[str]:
    """Values that begin with a minus sign, joined to their options: argparse takes `--axis -2,-1` for two options.

    >>> joined(["run", "--axis", "-2,-1"])
    ['run', '--axis=-2,-1']
    """
    result: list[str] = []
    for argument in arguments:
        if result and result[-1] in ("--axis", "--initial") and argument.startswith("-") and not argument.startswith("--"):
            result[-1] += f"={argument}"
        else:
            result.append(argument)
    return result


def _parser(make: Any, *name: str, **options: Any) -> Any:
    options.setdefault("description", options.get("help", "").capitalize())
    return make(*name, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **options)


def _shape(place: Any, **options: Any) -> None:
    place.add_argument("--shape", metavar="4x4096xf32", help=f"extents and element type: {', '.join(NAMES)}", **options)


def _problem(place: Any) -> None:
    group = place.add_argument_group("the reduction")
    _op(group)
    group.add_argument("--keepdims", action="store_true", help="keep the reduced axes, with extent 1")
    group.add_argument("--initial", type=_number, metavar="VALUE", help="joins the result, as NumPy's initial= (default: none)")
    group.add_argument("--ddof", type=int, default=0, help="of var and std: K - ddof divides (default: 0)")
    group.add_argument("--where", action="store_true", help="take a mask of bools as the second input, as NumPy's where=; run draws one")
    group.add_argument("--map", metavar="NAME", help=f"function of each element, before: {', '.join(NAMED)}")
    group.add_argument("--finalize", metavar="NAME", help="function of each result, after: one of the same")


def _op(place: Any) -> None:
    place.add_argument("--op", default="sum", help=f"{', '.join(OPS)}; several joined by commas (default: %(default)s)")
    place.add_argument("--axis", type=_axis, default=-1, metavar="N[,N...]", help="axes to reduce, or all (default: -1, the last)")
    place.add_argument("--dtype", metavar="TYPE", help="type to accumulate and to return, as NumPy's dtype= (default: as NumPy)")


def _bench(bench: Any) -> None:
    _shape(bench, required=True, action="append")
    bench.add_argument("--sizes", type=_sizes, metavar="4K:256M", help="change each shape's first extent to these bytes, in steps of 4")
    _op(bench)
    _tuning(bench)
    _timeout(bench)
    bench.add_argument("--rivals", default="numpy,iree,default", help="besides this package: numpy, iree, default (default: all)")
    bench.add_argument("--rounds", type=_rounds, default=31, metavar="N", help="timings of each contender (default: %(default)s)")
    bench.add_argument("--seed", type=_seed, default=0, metavar="N", help="of the random values (default: %(default)s)")
    bench.add_argument(
        "--read-size", type=_size, metavar="SIZE", help="array for memory's bandwidth; 0: none (default: 3 x the last cache)"
    )
    where = bench.add_mutually_exclusive_group()
    where.add_argument("--device", metavar="NAME", help="one of those that `devices` lists (default: cpu)")
    where.add_argument("--target", metavar="GFX", help="an AMD target: nothing is timed, the kernels' figures are shown side by side")
    output = bench.add_argument_group("output")
    output.add_argument("--csv", metavar="FILE", help="write the rows there; - is standard output")
    output.add_argument("--json", metavar="FILE", help="write rows, bandwidth and versions there; - is standard output")
    output.add_argument("--plot", metavar="FILE.png", help="draw bandwidth over size; needs Matplotlib (the extra `plot`)")


def _lowering(place: Any) -> None:
    _tuning(place)
    place.add_argument(
        "--strategy",
        default="subgroup",
        help="subgroup: this package's schedule; iree: the tuning through IREE's own, on ROCm; default: IREE without a tuning "
        "(default: %(default)s)",
    )


def _tuning(place: Any) -> None:
    place.add_argument("--tuning", metavar="FILE|JSON|ATTR", help="a JSON file, JSON text or an MLIR attribute (default: a good one)")


def _target(place: Any) -> None:
    place.add_argument("--target", default="cpu", help=f"{', '.join(TARGETS)} (default: %(default)s)")


def _timeout(place: Any) -> None:
    place.add_argument(
        "--timeout", type=_seconds, default=DEFAULT_TIMEOUT, metavar="S", help="seconds the compiler may take (default: %(default)g)"
    )


def _axis(text: str) -> int | tuple[int, ...] | None:
    if text.strip().lower() in ("all", "none"):
        return None
    try:
        axes = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not an axis: give integers joined by commas, e.g. 0,1, or all") from None
    return axes[0] if len(axes) == 1 else axes


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return seconds


def _rounds(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 10**6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of rounds above 0")
    return int(text)


def _size(text: str) -> int:
    found = re.fullmatch(r"([0-9]{1,9})([KMG]?)", text.strip().upper())
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of bytes: give e.g. 4096, 4K, 256M or 2G")
    return int(found[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[found[2]]


def _sizes(text: str) -> tuple[int, int]:
    low, colon, high = text.partition(":")
    sizes = _size(low), _size(high if colon else low)
    if not 0 < sizes[0] <= sizes[1]:
        raise argparse.ArgumentTypeError(f"{text!r} is not a range of sizes: give the smaller one first, e.g. 4K:256M")
    return sizes


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a seed: give a whole number of at least 0")
    return int(text)


def _number(text: str) -> int | float:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    raise argparse.ArgumentTypeError(f"{text!r} is not a number: give e.g. 0.5, -1e9 or inf")
