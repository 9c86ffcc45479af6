"""`explain`: what it says is the layout's and the assembly's."""

from __future__ import annotations

import pytest

from iree_reduce_plugin import compile
from iree_reduce_plugin.cli import main
from iree_reduce_plugin.explain import WIDE_LOADS

# Of 4 MB and more, rows and columns, aligned or not: the loads on their way on a compute unit have to hide the memory's latency.
LARGE = [
    ((16777216,), -1), ((16, 1000003), -1), ((16, 1000003), 0), ((128, 8192), -1), ((4096, 4096), -1), ((4096, 4096), 0), ((1 << 26,), -1),
    ((4096, 512), 0), ((300000, 16), -1), ((3, 1 << 20), -1), ((1000, 1025), -1), ((1 << 20, 7), 0), ((64, 65536), -1), ((1 << 22, 4), 0),
    ((8, 128, 4096), 1), ((32, 32, 1024), (0, 2)), ((1 << 20, 33), -1), ((2000, 3000), -1), ((2048, 2048), 0), ((7, 1000003), -1),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "axis"), LARGE, ids=str)
def test_default_tunings_keep_enough_in_flight(shape, axis):
    plan = compile(shape, axis=axis, target="gfx942")
    lines = plan.explain().splitlines()
    assert lines[-1].endswith(": enough."), lines[-1]
    assert f"where {WIDE_LOADS} hide" in lines[-1]


def test_the_words_are_the_layout_s(capsys):
    assert main(["explain", "--shape", "16777216xf32", "--target", "gfx942"]) == 0
    found = capsys.readouterr().out
    for words in ("1 result of 16777216 elements, 64 MiB", "64 lanes of 64 lie along K", "4 subgroups along K", "1024 share each result",
                  "4 steps are read before", "100 % of them work", "loads of 128 bits in flight a lane"):  # fmt: skip
        assert words in found


def test_few_loads_are_said_to_be_few():
    tuning = {"thread": [1, 1], "lane_basis": [[1, 64], [0, 1]], "subgroup_basis": [[1, 1], [0, 1]]}
    lines = compile((304, 8192), tuning=tuning, target="gfx942", op="argmax").explain().splitlines()
    assert "32 bits in flight" in lines[-1] and lines[-1].endswith("fewer than memory could bring.")


def test_without_a_tuning():
    assert "nothing is left to reduce" in compile((4, 1), target="cpu").explain()
    assert "the array is empty" in compile((0, 4), target="cpu").explain()
    assert "Vectors lie along the inner loop" in compile((100, 64), axis=0, target="cpu").explain()
