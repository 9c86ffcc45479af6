"""Writes docs/support.md: for each kind of target, op and element type, whether the result is the reference's bits, or near, or refused.

    python tools/write_support_table.py            # after a change
    python tools/write_support_table.py --check    # exit code 1 where the file is not what would be written

It asks what the package itself asks before it compiles (`check_supported`, `is_exact`), and compiles nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from iree_reduce_plugin.element_types import NAMES, ElementType
from iree_reduce_plugin.errors import InputError, InputTypeError
from iree_reduce_plugin.exactness import is_exact
from iree_reduce_plugin.ops import OPS, Op
from iree_reduce_plugin.problem import Problem
from iree_reduce_plugin.reference import tree
from iree_reduce_plugin.targets import TARGETS, Target
from iree_reduce_plugin.verify import check_supported

FILE = Path(__file__).parents[1] / "docs" / "support.md"
SHAPE = (4, 4096)
KINDS = {"CPU": "local", "ROCm": "hip", "CUDA": "cuda", "Vulkan": "vulkan"}

HEAD = """\
# What is supported

Written by `tools/write_support_table.py`, from what the package checks before it compiles; a test holds the two together. Without `dtype=`
or `initial`.

- **bits**: the result is the reference's, bit for bit (every NaN counting as one; zeros of either sign on software Vulkan)
- **ulps**: it is within some units in the last place of the reference, as `run` says: a logarithm differs between mathematics libraries,
  and Vulkan asks of a division, a root and a fused multiply-add less than IEEE 754 does
- **-**: NumPy's function refuses that type, and so does this package
- **refused**: NumPy takes it, and this package not yet

The README says which of it has run where: CUDA has been compiled for, and not been run.

Types are named as in MLIR; `bool` is NumPy's, `ui8` its uint8, and the 8-bit floats are those of `ml_dtypes`. `dtype=` takes these names
and NumPy's; `"i8"` is NumPy's there, 64 bits, and MLIR's in the text of a shape.
"""
RESULTS = """\
## Results and what joins

The result's type is NumPy's where `dtype=` is not given. Elements are computed in f32 where their type is a shorter float, in 32 bits
where it is a shorter integer; the result is rounded once.

| op | as NumPy's | result of integers and bools | `initial` joins | `where=` | an empty reduction |
|---|---|---|---|---|---|
"""


def verdict(op: Op, element: ElementType, target: Target) -> str:
    """`bits`, `ulps`, `refused`, or `-` where NumPy refuses."""
    try:
        problem = Problem.of(SHAPE, element, op.name)
        check_supported(problem, target)
    except InputTypeError:
        return "-"
    except InputError:
        return "refused"
    return "bits" if is_exact(problem, target) else "ulps"


def text() -> str:
    parts = [HEAD]
    for title, backend in KINDS.items():
        targets = [target for target in TARGETS.values() if target.backend == backend]
        parts.append(f"## {title}: {', '.join(f'`{target.name}`' for target in targets)}\n\n{_table(targets)}")
    parts.append(RESULTS + "".join(_row(op) for op in OPS.values()))
    return "\n".join(parts)


def _table(targets: Sequence[Target]) -> str:
    lines = [f"| op | {' | '.join(NAMES)} |", "|---" * (len(NAMES) + 1) + "|"]
    for op in OPS.values():
        cells = []
        for element in map(ElementType, NAMES):
            found = {verdict(op, element, target) for target in targets}
            if len(found) != 1:
                raise SystemExit(f"{op.name} of {element.name}: the targets {[t.name for t in targets]} differ, so that one table won't do")
            cells.append(found.pop())
        lines.append(f"| {op.name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _row(op: Op) -> str:
    joins = "-"
    if op.takes_initial:
        before = {"l2": "the sum of squares, before the root", "log_sum": "the sum, before the logarithm", "l1": "the sum of magnitudes"}
        joins = before.get(op.name, "the sum of squares" if op.name == "sum_of_squares" else "the result")
    i32 = ElementType("i32")
    result = op.result(op.loop_type(i32))
    kept = op.result(op.loop_type(ElementType("ui8"))).name
    kind = result.name if kept == result.name else "the array's" if kept == "ui8" else f"{result.name}, {kept} of unsigned ones"
    empty = "an error" if op.empty == "error" else "NaN" if op.name == "mean" else "-inf" if op.name == "log_sum" else _of_nothing(op)
    masks = ("with `initial`" if op.empty == "error" else "yes") if op.takes_where else "-"
    return f"| {op.name} | {op.numpy} | {kind} | {joins} | {masks} | {empty} |\n"


def _of_nothing(op: Op) -> str:
    problem = Problem.of((1, 0), ElementType("i32"), op.name)
    return str(tree(np.zeros((1, 0), problem.input.numpy), problem, None)[0]).replace("nan", "NaN")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 where the file is out of date")
    options = parser.parse_args(arguments)
    wanted = text()
    if options.check:
        if not FILE.exists() or FILE.read_text() != wanted:
            print(f"error: {FILE} is out of date: run python tools/write_support_table.py", file=sys.stderr)
            return 1
        return 0
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
