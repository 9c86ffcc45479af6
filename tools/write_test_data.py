"""Writes test_data/: the dispatch, the schedule and the tuning of both seed cases, as plain files to read, diff and give to iree-compile.

    python tools/write_test_data.py            # writes
    python tools/write_test_data.py --check    # exit code 1, and the names, where a file is not what would be written

They compile without this package:

    iree-compile reduce_4x4096.mlir --iree-codegen-transform-dialect-library=reduce_4x4096.schedule.mlir \
        --iree-hal-target-device=hip --iree-rocm-target=gfx942 -o reduce_4x4096.vmfb
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from iree_reduce_plugin.compiler import emit
from iree_reduce_plugin.plan import make_job
from iree_reduce_plugin.problem import Problem
from iree_reduce_plugin.shape_text import parse_shape
from iree_reduce_plugin.targets import find_target

ROOT = Path(__file__).resolve().parents[1] / "test_data"

SEEDS: tuple[dict[str, Any], ...] = (
    {
        "name": "reduce_4096",
        "input": "4096xf32",
        "op": "sum",
        "axis": -1,
        "target": "gfx942",
        "tuning": {
            "workgroup": [0],
            "reduction": [1024],
            "lane_basis": [[64], [0]],
            "subgroup_basis": [[4], [0]],
            "workgroup_size": [256, 1, 1],
            "subgroup_size": 64,
        },
    },
    {
        "name": "reduce_4x4096",
        "input": "4x4096xf32",
        "op": "sum",
        "axis": -1,
        "target": "gfx942",
        "tuning": {
            "workgroup": [4, 0],
            "reduction": [0, 256],
            "lane_basis": [[4, 16], [0, 1]],
            "subgroup_basis": [[1, 4], [0, 1]],
            "workgroup_size": [256, 1, 1],
            "subgroup_size": 64,
        },
    },
)


def contents() -> dict[str, str]:
    """The files by name."""
    files = {}
    for seed in SEEDS:
        shape, dtype = parse_shape(seed["input"])
        problem = Problem.of(shape, dtype, seed["op"], seed["axis"])
        job, _ = make_job(problem, seed["tuning"], find_target(seed["target"]))
        name = seed["name"]
        files[f"{name}.mlir"] = _lines(emit(job, "dispatch"))
        files[f"{name}.schedule.mlir"] = _lines(emit(job, "schedule"))
        entries = ",\n  ".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in seed["tuning"].items())
        files[f"{name}.tuning.json"] = f"{{\n  {entries}\n}}\n"
    return files


def _lines(text: str | bytes) -> str:
    return str(text).rstrip("\n") + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; say which files differ")
    options = parser.parse_args(arguments)
    files = contents()
    if not options.check:
        ROOT.mkdir(exist_ok=True)
        for name, text in files.items():
            (ROOT / name).write_text(text)
        print(f"wrote {len(files)} files to {ROOT}")
        return 0
    there = {path.name: path.read_text() for path in ROOT.glob("*") if path.is_file()}
    wrong = sorted(name for name in files.keys() | there.keys() if files.get(name) != there.get(name))
    for name in wrong:
        said = "is missing" if name not in there else "is not written by this tool" if name not in files else "differs"
        print(f"test_data/{name} {said}: run python tools/write_test_data.py", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
