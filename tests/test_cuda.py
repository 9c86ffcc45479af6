"""The schedule compiled for NVIDIA GPUs; where there is one, the matrix runs on it."""

from __future__ import annotations

import re

import pytest

from iree_reduce_plugin import compile


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("shape", ["4x4096xf32", "37x1001xf64", "3000xf16", "130x77xi32"])
def test_compiles(target, shape):
    plan = compile(shape, target=target)
    (entry,) = plan.report["dispatches"]
    assert entry["subgroup_size"] == 32 and entry["barriers"] is None


def test_lanes_meet_by_shuffles_and_subgroups_by_one_barrier(tmp_path):
    from iree_reduce_plugin.compiler import compile_job
    from iree_reduce_plugin.plan import make_job
    from iree_reduce_plugin.problem import Problem
    from iree_reduce_plugin.targets import find_target

    tuning = {"workgroup": [4, 0], "partial_reduction": [0, 128], "lane_basis": [[4, 8], [0, 1]], "subgroup_basis": [[1, 4], [0, 1]]}
    job, _ = make_job(Problem.of((4, 4096)), tuning, find_target("sm_90"))
    compile_job(job, dump_dir=str(tmp_path))
    (ptx,) = tmp_path.glob("*.ptx")
    text = ptx.read_text()
    assert ".target sm_90" in text
    assert text.count("shfl.sync.bfly") == 3 and text.count("bar.sync") == 1
    assert re.search(r"ld\.global(\.nc)?\.(v4\.[fb]32|v2\.b64)", text), "128-bit loads"
