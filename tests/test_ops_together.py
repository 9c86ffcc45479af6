"""Several results of one pass over memory."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from iree_reduce_plugin import InputError, compile, reduce, reference
from iree_reduce_plugin.compare import same_bits
from iree_reduce_plugin.devices import list_devices
from iree_reduce_plugin.problem import Problem

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

from emulate import emulate, emulated_job, random_data
from test_emulated import emulated

OPS = (("min", "max", "sum"), ("argmax", "argmin"), ("sum", "count_nonzero", "fmax"), ("var", "mean", "any"))
VULKAN = next((found.device for found in list_devices() if found.name == "vulkan"), None)


@pytest.mark.parametrize("ops", OPS, ids=",".join)
@pytest.mark.parametrize(("axis", "dtype"), [(0, "f4"), (1, "f2"), (None, "i4"), (1, "u1")])
def test_each_is_what_it_is_alone(ops, axis, dtype):
    x = (np.random.default_rng(0).standard_normal((37, 101)) * 3).astype("i1" if dtype == "u1" else dtype).astype(dtype)
    plan = compile(x, op=ops, axis=axis, target="cpu")
    results = plan(x)
    assert isinstance(results, tuple) and len(plan.report["dispatches"]) == 1
    for op, result in zip(ops, results, strict=True):
        assert same_bits(result, reference(x, plan.tuning, op=op, axis=axis)), op


@pytest.mark.skipif(VULKAN is None, reason="device vulkan is not here")
@pytest.mark.parametrize("ops", OPS[:2], ids=",".join)
def test_on_vulkan(ops):
    x = np.random.default_rng(0).standard_normal((37, 1001)).astype("f4")
    plan = compile(x, op=ops, axis=0, target=VULKAN.target)
    assert all(same_bits(*pair) for pair in zip(plan(x), reference(x, plan.tuning, op=ops, axis=0), strict=True))


@emulated
@pytest.mark.parametrize("ops", OPS, ids=",".join)
@pytest.mark.parametrize("axis", [0, 1])
def test_on_emulated_gfx942(ops, axis):
    problem = Problem.of((11, 301) if axis else (301, 11), "f32", ops, axis)
    assert emulate(emulated_job(problem, None, "gfx942"), random_data(problem)).right


def test_in_its_simplest_form():
    low, high, total = reduce(np.arange(6).reshape(2, 3), op=("min", "max", "sum"), keepdims=True)
    assert low.tolist() == [[0], [3]] and high.tolist() == [[2], [5]] and total.tolist() == [[3], [12]]
    assert [one.shape for one in reduce(np.zeros((0, 4)), op=("sum", "mean"))] == [(0,), (0,)]
    assert [one.tolist() for one in reduce(np.float32([[3], [4]]), op=("sum", "argmax"))] == [[3, 4], [0, 0]]


@pytest.mark.parametrize(
    ("ops", "options", "words"),
    [
        (("sum", "summ"), {}, "op 'summ' is not known"),
        (("sum", "sum"), {}, "each op once"),
        ((), {}, r"op \(\) is not known"),
        (("sum", "max"), {"finalize": "sqrt"}, "it is not known which it is for"),
    ],
)
def test_what_is_refused(ops, options, words, no_compiler):
    with pytest.raises(InputError, match=words):
        reduce(np.ones(4), op=ops, **options)


@pytest.mark.parametrize("option", [{"initial": 1}, {"dtype": "f8"}])
def test_what_only_one_op_takes(option, no_compiler):
    with pytest.raises(TypeError, match="leave it out"):
        reduce(np.ones(4), op=("sum", "max"), **option)
