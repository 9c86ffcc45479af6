"""Arrays that stay on the device, and `out=`."""

from __future__ import annotations

import subprocess
import sys

import iree.runtime as rt
import numpy as np
import pytest

from iree_reduce_plugin import InputError, compile, reduce
from iree_reduce_plugin.compare import same_bits
from iree_reduce_plugin.devices import list_devices

DEVICES = [found.device for found in list_devices() if found.name in ("cpu", "vulkan", "hip", "cuda") and found.device is not None]
on_devices = pytest.mark.parametrize("target", [device.target for device in DEVICES])


def results(found):
    return found if isinstance(found, tuple) else (found,)


@on_devices
@pytest.mark.parametrize(("dtype", "op"), [("f4", "sum"), ("?", "any"), ("i2", ("min", "sum")), ("f8", "mean")])
def test_the_same_result(target, dtype, op):
    x = (np.random.default_rng(0).standard_normal((37, 100)) * 9).astype(dtype)
    plan = compile(x, op=op, axis=0, target=target)
    on_host, on_device = results(plan(x)), results(plan(plan.to_device(x)))
    for a, b in zip(on_host, on_device, strict=True):
        assert isinstance(b, rt.DeviceArray) and tuple(b.shape) == a.shape and same_bits(plan.to_host(b), a)


@on_devices
def test_a_result_is_another_plan_s_array(target):
    x = np.random.default_rng(0).standard_normal((4, 8, 1000)).astype("f4")
    rows, total = compile(x, target=target), compile("4x8xf32", op="max", axis=None, keepdims=True, target=target)
    found = total(rows(rows.to_device(x)))
    assert same_bits(total.to_host(found), total(rows(x)))


@on_devices
def test_masks(target):
    x = np.ones((8, 64), "f4")
    plan = compile(x, masked=True, target=target)
    mask = np.random.default_rng(0).random(x.shape) < 0.5
    assert same_bits(plan.to_host(plan(plan.to_device(x), plan.to_device(mask))), plan(x, mask))
    with pytest.raises(InputError, match=r"where: a ndarray beside an array on the device: .*to_device"):
        plan(plan.to_device(x), mask)


def test_what_is_refused():
    plan = compile("16xf32", target="cpu")
    with pytest.raises(InputError, match=r"device array 8 float32: the plan is for 16 float32"):
        plan(plan.to_device(np.ones(8, "f4")))
    with pytest.raises(InputError, match=r"not on the plan's device; make it by plan\.to_device"):
        plan(rt.asdevicearray(rt.get_device("local-sync"), np.ones(16, "f4")))
    with pytest.raises(InputError, match="compiled without a mask"):
        plan(plan.to_device(np.ones(16, "f4")), plan.to_device(np.ones(16, "f4")))
    with pytest.raises(InputError, match="stays there, as an array of its own"):
        plan(plan.to_device(np.ones(16, "f4")), out=np.zeros(()))
    halves = compile("16xbf16", target="cpu")
    with pytest.raises(InputError, match="device arrays of bf16 are not supported"):
        halves.to_device(np.ones(16, halves.problem.input.numpy))
    with pytest.raises(InputError, match="the array is empty"):
        compile((0, 4), target="cpu").to_device(np.ones((0, 4), "f4"))


def test_arrays_that_are_left_at_the_end_of_the_process():
    code = (
        "import numpy as np; from iree_reduce_plugin import compile; plan = compile('16xf32', target='cpu'); "
        "kept = [plan(plan.to_device(np.ones(16, 'f4'))) for _ in range(3)]; del plan; print(np.asarray(kept[0]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "16.0", "")


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_out(dtype):
    x, out = np.arange(12, dtype="f4").reshape(3, 4), np.zeros(3, dtype)
    assert reduce(x, out=out) is out and out.tolist() == [6, 22, 38]
    wide = np.zeros((3, 2), dtype)
    assert reduce(x, out=wide[:, 1]).base is not None and wide[:, 1].tolist() == [6, 22, 38] and not wide[:, 0].any()
    low, high = np.zeros(3, "f4"), np.zeros(3, "f4")
    reduce(x, op=("min", "max"), out=(low, high))
    assert low.tolist() == [0, 4, 8] and high.tolist() == [3, 7, 11]
    empty = np.ones(2, "f4")
    reduce(np.ones((2, 0), "f4"), out=empty)
    assert empty.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("out", "error"),
    [(np.zeros(4, "f4"), ValueError), (np.zeros((3, 1), "f4"), ValueError), ([0, 0, 0], TypeError)],
)
def test_an_out_that_numpy_refuses_too(out, error):
    x = np.ones((3, 4), "f4")
    with pytest.raises(error):
        np.sum(x, axis=-1, out=out)
    with pytest.raises(error, match="out: ") as refusal:
        reduce(x, out=out)
    assert "\n" not in str(refusal.value)
    with pytest.raises(TypeError, match="float32 is not cast to int32"):  # NumPy adds up in integers then
        reduce(x, out=np.zeros(3, "i4"))
    with pytest.raises(InputError, match="2 arrays for 1 result"):
        reduce(x, out=(np.zeros(3, "f4"), np.zeros(3, "f4")))
    frozen = np.zeros(3, "f4")
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        reduce(x, out=frozen)
