"""K split over workgroups: two kernels, one summation tree."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest

from iree_reduce_plugin import TuningError, compile, reduce, reference, verify
from iree_reduce_plugin.compare import same_bits
from iree_reduce_plugin.devices import list_devices
from iree_reduce_plugin.problem import Problem

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

from emulate import emulate, emulated_job, random_data
from test_emulated import emulated

VULKAN = next((found.device for found in list_devices() if found.name == "vulkan"), None)


def basis(*counts):
    return [list(counts), list(range(len(counts)))]


# Form: shape, axis, tuning for subgroups of 8, pieces. The last piece is whole, longer, or shorter; with a partial step, and without.
CASES = {
    "one row": ((9999,), -1, {"thread": [4], "lane_basis": basis(8), "subgroup_basis": basis(4), "split_reduction": [512]}, 20),
    "even": ((8192,), -1, {"thread": [4], "lane_basis": basis(8), "subgroup_basis": basis(2), "split_reduction": [1024]}, 8),
    "rows, unrolled": (
        (3, 5007),
        -1,
        {
            "thread": [1, 4], "lane_basis": basis(1, 8), "subgroup_basis": basis(1, 2), "partial_reduction": [0, 192],
            "split_reduction": [0, 384],
        },
        13,
    ),
    "few columns": (
        (2007, 3), 0, {"thread": [1, 4], "lane_basis": basis(4, 2), "subgroup_basis": basis(1, 2), "split_reduction": [0, 96]}, 21,
    ),
    "columns": ((500, 36), 0, {"thread": [4, 1], "lane_basis": basis(8, 1), "subgroup_basis": basis(1, 2), "split_reduction": [0, 64]}, 8),
    "a middle axis": (
        (5, 301, 6), 1,
        {"thread": [1, 2, 1], "lane_basis": basis(1, 4, 2), "subgroup_basis": basis(1, 1, 2), "split_reduction": [0, 0, 64]}, 5,
    ),
    "two axes": (
        (7, 5, 100), (0, 2), {"thread": [1, 4], "lane_basis": basis(1, 8), "subgroup_basis": basis(1, 2), "split_reduction": [0, 128]}, 5,
    ),
}  # fmt: skip
OPS = {
    "sum": {},
    "max": {"initial": 0.25},
    "mean": {"finalize": "negative"},
    "argmin": {},
    "var": {"ddof": 1},
    ("min", "sum"): {},
}


def bits(results, expected):
    pairs = zip(results, expected, strict=True) if isinstance(expected, tuple) else [(results, expected)]
    return all(same_bits(np.asarray(a), np.asarray(b)) for a, b in pairs)


@pytest.mark.parametrize("form", CASES)
@pytest.mark.parametrize("op", ["sum", "argmin", "var"])
def test_on_the_cpu(form, op):
    shape, axis, tuning, pieces = CASES[form]
    x = np.random.default_rng(0).standard_normal(shape).astype("f4")
    plan = compile(x, op=op, axis=axis, tuning=tuning, target="cpu", **OPS[op])
    assert len(plan.report["dispatches"]) == 2 and plan.layout.pieces == pieces
    assert bits(plan(x), reference(x, tuning, op=op, axis=axis, **OPS[op]))


@pytest.mark.parametrize("op", OPS, ids=str)
def test_ops(op):
    shape, axis, tuning, _ = CASES["rows, unrolled"]
    x = np.random.default_rng(0).standard_normal(shape).astype("f4")
    plan = compile(x, op=op, axis=axis, tuning=tuning, target="cpu", **OPS[op])
    assert bits(plan(x), reference(x, tuning, op=op, axis=axis, **OPS[op]))


@pytest.mark.parametrize("dtype", ["f2", "f8", "i2", "u1", "?"])
def test_types(dtype):
    shape, axis, tuning, _ = CASES["few columns"]
    x = np.random.default_rng(0).integers(0, 2 if dtype == "?" else 100, shape).astype(dtype)
    mask = np.random.default_rng(1).random(shape) < 0.5
    for options in ({}, {"where": mask}):
        found = reduce(x, tuning, axis=axis, device="cpu", **options)
        assert bits(found, reference(x, tuning, axis=axis, **options)) and found.dtype == np.sum(x[:1], axis=axis).dtype


@pytest.mark.skipif(VULKAN is None or VULKAN.target != "vulkan8", reason="device vulkan of subgroups of 8 is not here")
@pytest.mark.parametrize("form", CASES)
@pytest.mark.parametrize("op", ["sum", "argmin"])
def test_on_vulkan(form, op):
    shape, axis, tuning, _ = CASES[form]
    x = np.random.default_rng(0).standard_normal(shape).astype("f4")
    assert bits(reduce(x, tuning, op=op, axis=axis, device="vulkan"), reference(x, tuning, op=op, axis=axis))


@emulated
@pytest.mark.parametrize("op", ["sum", "var", ("min", "sum")], ids=str)
@pytest.mark.parametrize("shape, axis", [((20001,), -1), ((3, 10007), -1), ((3000, 20), 0)], ids=str)
def test_on_emulated_gfx942(op, shape, axis):
    long, inner = len(shape) == 1, axis == 0
    tuning = {
        "thread": [4] if long else [4, 1] if inner else [1, 4],
        "lane_basis": basis(64) if long else basis(16, 4) if inner else basis(1, 64),
        "subgroup_basis": basis(4) if long else basis(1, 4),
        "split_reduction": [2048] if long else [0, 512] if inner else [0, 2048],
    }
    problem = Problem.of(shape, "f32", op, axis)
    found = emulate(emulated_job(problem, tuning, "gfx942"), random_data(problem))
    assert found.right and found.run.out_of_range == 0 and len(found.dispatches) == 2


@emulated
@pytest.mark.slow
@pytest.mark.parametrize(("shape", "workgroups", "most"), [((1 << 24,), 1024, 600_000), ((16, 1000003), 976, 750_000)], ids=str)
def test_the_whole_gpu_for_one_big_reduction(shape, workgroups, most):
    problem = Problem.of(shape)
    found = emulate(emulated_job(problem, None, "gfx942"), random_data(problem))
    assert found.right and found.run.out_of_range == 0 and found.run.total <= most
    assert np.prod(found.dispatches[0]["workgroup_count"]) == workgroups >= 304


def test_the_steps_taken_at_a_time_change_no_bit():
    shape, axis, tuning, _ = CASES["rows, unrolled"]
    x = np.random.default_rng(0).standard_normal(shape).astype("f4")
    results = [reduce(x, {**tuning, "partial_reduction": [0, 64 * n]}, axis=axis, device="cpu") for n in (1, 2, 3, 6)]
    assert all(same_bits(result, results[0]) for result in results)
    whole = reduce(x, {key: value for key, value in tuning.items() if key != "split_reduction"}, axis=axis, device="cpu")
    assert not same_bits(whole, results[0])


def test_the_error_on_16_million_elements_is_of_numpy_s_size():
    x = np.random.default_rng(0).random(1 << 24, dtype="f4")
    exact = np.sum(x, dtype="f8")
    plan = compile(x, target="cpu")
    assert plan.layout.pieces >= 64
    assert abs(plan(x) - exact) <= 4 * max(abs(np.sum(x) - exact), np.spacing(np.float32(exact)))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"split_reduction": [0, 100]}, ["split_reduction [0, 100]", "not a multiple of partial_reduction 192", "use 192"]),
        ({"split_reduction": [192, 192]}, ["split_reduction [192, 192]", "only the reduced loop", "set the others to 0"]),
        ({"split_reduction": [0]}, ["split_reduction has 1 entry", "2 loops"]),
        ({"split_reduction": 192}, ["split_reduction", "not a list"]),
        ({"split_reduction": [0, -192]}, ["split_reduction", "out of range"]),
    ],
)
def test_refused(changed, words):
    tuning = {**CASES["rows, unrolled"][2], **changed}
    with pytest.raises(TuningError) as refusal:
        verify(tuning, (3, 5007))
    assert "\n" not in str(refusal.value)
    for word in words:
        assert word in str(refusal.value)


def test_iree_s_pipeline_takes_k_whole():
    tuning = {"thread": [1, 4], "lane_basis": basis(1, 64), "subgroup_basis": basis(1, 4), "split_reduction": [0, 4096]}
    with pytest.raises(TuningError, match=r"split_reduction .*leave it out"):
        verify(tuning, (4, 1 << 20), target="gfx942", strategy="iree")
    assert compile((1, 1 << 20), target="gfx942", strategy="iree").tuning.split_reduction is None


def test_a_k_of_one_piece_is_not_split():
    full = verify({**CASES["rows, unrolled"][2], "split_reduction": [0, 19200]}, (3, 5007))
    assert full.split_reduction is None
    plan = compile((1 << 20,), target="cpu")
    again = compile((1 << 20,), tuning=plan.tuning.to_attribute(), target="cpu")
    assert again.tuning == plan.tuning and again.layout.pieces == 16
    held = [plan.layout.holds((piece,), 0)["K"] for piece in range(16)]
    assert np.array_equal(np.concatenate(held), dataclasses.replace(plan.layout, piece_steps=0).holds((), 0)["K"])
