"""What a call costs, for pytest-benchmark to compare between commits (`--benchmark-autosave`, `--benchmark-compare`). Nothing is asserted
of the times. Under pytest-xdist each runs once and is not timed."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("pytest_benchmark", reason="pytest-benchmark is not installed: pip install pytest-benchmark")

from iree_reduce_plugin import api, compile, reduce

pytestmark = pytest.mark.benchmark(max_time=0.3, min_rounds=5, warmup=False)


def test_a_warm_call_of_16_elements(benchmark):
    x = np.ones(16, "f4")
    assert benchmark(compile(x, target="cpu"), x) == 16


def test_a_warm_call_of_1024_rows(benchmark):
    x = np.ones((1024, 1024), "f4")
    assert benchmark(compile(x, target="cpu"), x).tolist() == [1024.0] * 1024


def test_the_lookup_of_a_plan(benchmark, monkeypatch):
    """All that `reduce` does but for the plan itself."""
    x = np.ones(16, "f4")
    monkeypatch.setattr(api, "_plans", {})
    reduce(x, device="cpu")
    (key,) = api._plans
    api._plans[key] = lambda *given: "found"
    assert benchmark(reduce, x, device="cpu") == "found"
