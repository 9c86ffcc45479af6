"""`where=`: elements that a mask leaves out change nothing, whatever they are."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from iree_reduce_plugin import InputError, compile, reduce, reference
from iree_reduce_plugin.compare import allowed_units, compare, same_bits, units_apart
from iree_reduce_plugin.devices import list_devices
from iree_reduce_plugin.ops import OPS
from iree_reduce_plugin.problem import Problem

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

from emulate import emulate, emulated_job, random_data
from test_emulated import emulated

TAKING = [name for name, op in OPS.items() if op.takes_where]
QUICK = ("sum", "fmax", "all", "mean", "l2", "logsumexp", "var")
VULKAN = next((found.device for found in list_devices() if found.name == "vulkan"), None)
SHAPES = [((37, 301), 1), ((301, 37), 0), ((3, 50, 6), 1), ((5, 1), 1)]


def case(op, shape, dtype="f4"):
    """The array, a mask, and options: where the mask doesn't hold is what would be seen: a NaN, or the highest value there is."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape)
    if op.startswith("bitwise"):
        dtype = "i4"
    x = (np.abs(x) + 0.5).astype(dtype) if op in ("prod", "log_sum") else (x * 8).astype(dtype)
    mask = rng.random(shape) < 0.6
    mask[..., -1] |= ~mask.any(axis=-1)
    x[~mask] = np.nan if x.dtype.kind == "f" else np.iinfo(x.dtype).max
    return x, mask, {"initial": 0} if OPS[op].empty == "error" else {}


@pytest.mark.parametrize("shape, axis", SHAPES, ids=str)
@pytest.mark.parametrize("op", QUICK)
def test_on_the_cpu(op, shape, axis):
    x, mask, options = case(op, shape)
    plan = compile(x, op=op, axis=axis, masked=True, target="cpu", **options)
    result = plan(x, mask)
    assert compare(x, result, plan._job, mask).right
    assert same_bits(reduce(x, plan.tuning, op=op, axis=axis, where=mask, device="cpu", **options), result)
    other = np.where(mask, x, x.dtype.type(77))
    assert same_bits(plan(other, mask), result)


@pytest.mark.parametrize("op", TAKING)
def test_the_reference_is_numpy_s(op):
    x, mask, options = case(op, (37, 301))
    plan = compile(x, op=op, masked=True, target="cpu", **options)
    found = compare(x, reference(x, plan.tuning, op=op, where=mask, **options), plan._job, mask)
    assert found.difference <= found.tolerance and found.units == 0


@pytest.mark.skipif(VULKAN is None, reason="device vulkan is not here")
@pytest.mark.parametrize("op", QUICK)
@pytest.mark.parametrize("axis", [0, 1])
def test_on_vulkan(op, axis):
    x, mask, options = case(op, (37, 101))
    plan = compile(x, op=op, axis=axis, masked=True, target=VULKAN.target, **options)
    expected = reference(x, plan.tuning, op=op, axis=axis, where=mask, **options)
    assert units_apart(plan(x, mask), expected) <= allowed_units(plan._job)


@emulated
@pytest.mark.parametrize("op", ["sum", "max", "mean", "var", "bitwise_or", ("min", "sum")])
@pytest.mark.parametrize("shape, axis", [((5, 301), 1), ((301, 22), 0), ((3, 50, 6), 1)], ids=str)
def test_on_emulated_gfx942(op, shape, axis):
    if isinstance(op, tuple):
        op = ("mean", "sum")
    problem = Problem.of(shape, "i32" if op == "bitwise_or" else "f32", op, axis, initial=-7 if op == "max" else None, masked=True)
    mask = np.random.default_rng(1).random(shape) < 0.5
    found = emulate(emulated_job(problem, None, "gfx942"), random_data(problem), mask)
    assert found.right and found.run.out_of_range == 0


@pytest.mark.parametrize("strategy", ["subgroup", "default"])
def test_iree_s_own_lowering_takes_the_mask_too(strategy):
    x, mask, _ = case("sum", (8, 300))
    plan = compile(x, masked=True, target="cpu", strategy=strategy)
    np.testing.assert_allclose(plan(x, mask), np.sum(x, axis=1, where=mask), rtol=1e-5)


def test_masks_that_numpy_takes():
    x = np.float32([[1, 2, 3], [4, 5, 6]])
    for mask in ([True, False, True], [[True], [False]], True, False, np.True_, np.asfortranarray(x > 2), x[::-1] > 2):
        assert reduce(x, where=mask).tolist() == np.sum(x, axis=1, where=mask).tolist()
    frozen = x > 1
    frozen.flags.writeable = False
    assert reduce(x, where=frozen, axis=None) == 20
    assert reduce(np.float32(3), where=False) == 0


def test_a_plan_takes_a_mask_where_it_was_compiled_for_one():
    x = np.ones((3, 4), "f4")
    plain, masked = compile(x, target="cpu"), compile(x, target="cpu", masked=True)
    with pytest.raises(InputError, match="compiled without a mask; compile it with masked=True"):
        plain(x, x > 0)
    assert masked(x).tolist() == plain(x).tolist() == plain(x, None).tolist() == [4, 4, 4]
    assert "where a mask holds" in repr(masked)


@pytest.mark.parametrize("ddof", [0, 0.5, 1, 1.5, 3])
def test_a_fractional_ddof(ddof):
    x, mask = np.float32([[1, 2, 3, 7], [5, 1, 1, 1]]), np.array([[1, 1, 0, 0], [1, 1, 1, 0]], bool)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = np.var(x, axis=1, ddof=ddof, where=mask)
    np.testing.assert_allclose(reduce(x, op="var", ddof=ddof, where=mask, device="cpu"), expected, rtol=1e-6)


@pytest.mark.parametrize("ddof", ["a", None, [1], 1j, 10**400])
def test_a_ddof_that_is_no_number(ddof, no_compiler):
    with pytest.raises(TypeError, match=r"ddof .*is not a number"):
        reduce(np.ones((2, 4), "f4"), op="var", ddof=ddof, where=np.ones(4, bool))


def test_masks_of_empty_arrays_are_looked_at_too():
    x, masked = np.ones((2, 0), "f4"), compile("2x0xf32", masked=True, target="cpu")
    assert masked(x, np.ones((2, 1), bool)).tolist() == [0, 0]
    with pytest.raises(InputError, match="can't be broadcast"):
        masked(x, np.ones(3, bool))
    with pytest.raises(TypeError, match="Cannot cast"):
        masked(x, np.ones((2, 1), int))
    with pytest.raises(InputError, match="compiled without a mask"):
        compile("2x0xf32", target="cpu")(x, np.ones((2, 1), bool))


def test_several_ops_of_which_one_has_no_identity(no_compiler):
    with pytest.raises(InputError, match="one of max,sum has no identity; give it alone"):
        reduce(np.ones((2, 4)), op=("max", "sum"), where=np.ones(4, bool))
    with pytest.raises(TypeError, match="masked 'yes' is not a boolean"):
        compile("2x4xf32", masked="yes")
