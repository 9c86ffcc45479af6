"""docs/support.md is what the package does: it is up to date, and what it says of the devices here is so."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from matrix import make_data

from iree_reduce_plugin.compare import compare
from iree_reduce_plugin.devices import list_devices
from iree_reduce_plugin.element_types import NAMES, ElementType
from iree_reduce_plugin.ops import OPS
from iree_reduce_plugin.plan import build_plan, make_job
from iree_reduce_plugin.problem import Problem
from iree_reduce_plugin.targets import TARGETS, find_target

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import write_support_table  # noqa: E402

DEVICES = {found.name: found for found in list_devices() if found.name in ("hip", "cuda", "vulkan", "cpu")}
KIND_OF = {backend: kind for kind, backend in write_support_table.KINDS.items()}


def tables():
    """kind of target -> op -> type -> what the file says."""
    found = {}
    for line in write_support_table.FILE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("## "):
            table = found.setdefault(line[3:].partition(":")[0], {})
        elif len(cells) == len(NAMES) + 1 and cells[0] in OPS:
            table[cells[0]] = dict(zip(NAMES, cells[1:], strict=True))
    return found


def test_the_file_is_up_to_date(capsys, monkeypatch, tmp_path):
    assert write_support_table.main(["--check"]) == 0
    copy = tmp_path / "support.md"
    copy.write_text(write_support_table.FILE.read_text().replace("| bits |", "| ulps |", 1))
    monkeypatch.setattr(write_support_table, "FILE", copy)
    assert write_support_table.main(["--check"]) == 1 and "out of date" in capsys.readouterr().err
    assert write_support_table.main([]) == 0 and write_support_table.main(["--check"]) == 0


def test_every_target_and_op_and_type_is_there():
    found = tables()
    assert all(set(found[kind]) == set(OPS) for kind in write_support_table.KINDS)
    assert {target.backend for target in TARGETS.values()} == set(write_support_table.KINDS.values())
    assert found["Vulkan"]["log_sum"]["f64"] == "refused" and found["CPU"]["bitwise_or"]["f32"] == "-"
    assert found["ROCm"]["sum_of_squares"]["f32"] == "bits" and found["Vulkan"]["sum_of_squares"]["f32"] == "ulps"


@pytest.mark.parametrize("kind", write_support_table.KINDS)
@pytest.mark.parametrize("op", OPS)
def test_a_dash_is_where_numpy_refuses_too(op, kind):
    for name, said in tables()[kind][op].items():
        x = np.zeros((2, 3), ElementType(name).numpy)
        if op.startswith("bitwise"):
            try:
                getattr(np, op).reduce(x, axis=1)
                refused = False
            except TypeError:
                refused = True
            assert refused == (said == "-"), name
        else:
            assert (said == "-") == (op == "ptp" and name == "bool")  # NumPy subtracts no bools


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("device", sorted(DEVICES))
def test_the_devices_do_what_the_file_says(device, op, name):
    found = DEVICES[device].device
    if found is None:
        pytest.skip(f"device {device}: {DEVICES[device].reason}")
    target = find_target(found.target)
    said = tables()[KIND_OF[target.backend]][op][name]
    if said in ("-", "refused"):
        pytest.skip(f"{op} of {name} is not supported there")
    problem = Problem.of((5, 333), ElementType(name), op)
    job, source = make_job(problem, None, target)
    x = make_data(problem, "random", job.layout)
    with np.errstate(all="ignore"):
        comparison = compare(x, build_plan(job, source, found)(x), job)
    assert comparison.right and comparison.exact == (said == "bits"), comparison
