"""What docs/numbers.md says of zeros, NaN and subnormal numbers: each row, on every device here, and on the emulator where it is."""

from __future__ import annotations

import functools
import sys
import warnings
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from iree_reduce_plugin import compile, reduce, reference
from iree_reduce_plugin.compare import same_bits
from iree_reduce_plugin.devices import list_devices
from iree_reduce_plugin.element_types import ElementType
from iree_reduce_plugin.plan import build_plan, make_job
from iree_reduce_plugin.problem import Problem
from iree_reduce_plugin.reference import as_matrix, tree
from iree_reduce_plugin.targets import find_target

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

from emulate import emulate, emulated_job
from test_emulated import emulated

DEVICES = {found.name: found for found in list_devices()}
COUNT = 300
FLOATS = ("f32", "f64", "f16", "bf16")


def on_device(name):
    found = DEVICES[name]
    return pytest.param(name, marks=pytest.mark.skipif(found.device is None, reason=f"device {name}: {found.reason}"))


everywhere = pytest.mark.parametrize(
    "device", [*map(on_device, ("cpu", "vulkan", "hip", "cuda")), *(pytest.param(name, marks=emulated) for name in ("gfx942", "gfx1100"))]
)


@functools.cache
def size_of(device):
    return {"gfx942": 64, "gfx1100": 32}.get(device) or min(find_target(DEVICES[device].device.target).subgroup_sizes or (16,))


def results(device, x, op, initial=None):
    """(the device's result, the reference's) for a tuning with lanes, subgroups and a tail."""
    problem = Problem.of(x.shape, x.dtype, op, initial=initial)
    tuning = {"lane_basis": [[size_of(device)], [0]], "subgroup_basis": [[2], [0]], "thread": [2]}
    if device in ("gfx942", "gfx1100"):
        job = emulated_job(problem, tuning, device)
        result = emulate(job, x).result
    else:
        found = DEVICES[device].device
        job, source = make_job(problem, tuning, find_target(found.target))
        result = build_plan(job, source, found)(x)
    return result, tree(as_matrix(x, problem), problem, job.layout).reshape(())


def filled(value, dtype):
    return np.full(COUNT, value).astype(ElementType.of(dtype).numpy)


def is_negative(x):
    return bool(np.signbit(np.asarray(x, "f8")))


@everywhere
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_a_sum_of_minus_zeros(device, dtype):
    result, expected = results(device, filled(-0.0, dtype), "sum")
    assert not is_negative(expected) and result == 0
    assert device == "vulkan" or same_bits(result, expected)
    result, expected = results(device, filled(-0.0, dtype), "sum", initial=-0.0)
    assert is_negative(expected) and same_bits(result, expected)


@everywhere
@pytest.mark.parametrize("op", ["max", "min"])
@pytest.mark.parametrize("at", [0, 150, COUNT - 1])
def test_zeros_of_both_signs(device, op, at):
    x = filled(-0.0, "f32")
    x[at] = 0.0
    if device == "gfx1100" and at == 150:
        pytest.skip("the emulator of gfx1100 takes a while")
    result, expected = results(device, x, op)
    assert is_negative(expected) == (op == "min") and result == 0
    assert device == "vulkan" or same_bits(result, expected)


@everywhere
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize(("at", "value"), [(0, np.nan), (7, -np.nan), (COUNT - 1, np.nan)])
def test_nan_anywhere(device, op, dtype, at, value):
    if device != "cpu" and dtype in ("f64", "f16") and at == 7:
        pytest.skip("a kernel takes a while there: the other places and types are run")
    x = np.ones(COUNT, ElementType.of(dtype).numpy)
    x[at] = value
    result, expected = results(device, x, op)
    assert np.isnan(np.asarray(result, "f8")) and same_bits(result, expected)


@everywhere
@pytest.mark.parametrize(("op", "dtype"), [("sum", "f32"), ("max", "f32"), ("sum", "f64"), ("sum", "f16"), ("max", "bf16")])
def test_subnormal_numbers(device, op, dtype):
    limits = ml_dtypes.finfo(ElementType.of(dtype).numpy)
    result, expected = results(device, filled(limits.smallest_subnormal * 3 if dtype != "bf16" else limits.smallest_normal / 4, dtype), op)
    assert expected > 0
    if device == "cpu" and dtype != "f16":  # IREE's CPU drivers flush them
        assert result == 0
    else:
        assert same_bits(result, expected)


@everywhere
@pytest.mark.parametrize("op", ["fmax", "fmin"])
@pytest.mark.parametrize("kind", ["nan but one", "nan", "zeros", "subnormal"])
def test_what_ignores_nan(device, op, kind):
    """By integers of the floats' order, so that neither a driver's choice between zeros nor a processor's flushing plays a part."""
    x = filled({"zeros": -0.0, "subnormal": 1e-40}.get(kind, np.nan), "f32")
    if kind in ("nan but one", "zeros"):
        x[150] = 0.0
    result, expected = results(device, x, op)
    assert np.isnan(expected) == (kind == "nan") and same_bits(result, expected)
    assert kind != "zeros" or is_negative(expected) == (op == "fmin")


@pytest.mark.parametrize("device", [*map(on_device, ("cpu", "vulkan", "hip", "cuda"))])
@pytest.mark.parametrize("dtype", ["f4", "f2"])
@pytest.mark.parametrize(("op", "ddof"), [("ptp", 0), ("var", 0), ("std", 0), ("var", 2), ("std", 2)])
def test_distances_of_what_is_no_number(device, op, ddof, dtype):
    """Vulkan's drivers took x - x for 0, and of a division by 0 they may make anything."""
    given = {"op": op, **({"ddof": ddof} if ddof else {})}
    for columns in (1, 2):
        x = np.array([[1, 2], [np.inf, 1], [1, np.inf], [np.inf, np.inf], [np.nan, 1], [-np.inf, -np.inf], [3, 3]], dtype)[:, :columns]
        tuning = compile(x, target=DEVICES[device].device.target, **given).tuning
        result, expected = reduce(x, device=device, **given), reference(x, tuning or {}, **given)
        np.testing.assert_array_equal(result, expected)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            np.testing.assert_array_equal(result, getattr(np, op)(x, axis=1, **({"ddof": ddof} if ddof else {})))
