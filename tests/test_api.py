"""`reduce`, `compile` and `Plan`: NumPy's results, shapes and types; what is kept between calls; arrays of every kind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

import ml_dtypes
import numpy as np
import pytest

import iree_reduce_plugin
from iree_reduce_plugin import DeviceError, InputError, Plan, Tuning, TuningError, api, compile, compiler, reduce, reference
from iree_reduce_plugin.devices import list_devices

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SEED = {"workgroup": [4, 0], "reduction": [0, 256], "lane_basis": [[4, 16], [0, 1]], "subgroup_basis": [[1, 4], [0, 1]]}
ONE = {"reduction": [64], "lane_basis": [[16], [0]]}
has_gpu = any(found.name in ("hip", "cuda") and found.device is not None for found in list_devices())


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch):
    monkeypatch.setenv("IREE_REDUCE_DEVICE", "cpu")
    monkeypatch.setattr(api, "_plans", {})


@pytest.fixture
def compiled(monkeypatch):
    """The jobs that are compiled or loaded, in order."""
    jobs = []

    def load_or_compile(job, timeout):
        jobs.append(job)
        return compiler.load_or_compile(job, timeout)

    monkeypatch.setattr("iree_reduce_plugin.plan.load_or_compile", load_or_compile)
    return jobs


def whole(shape, dtype="f4"):
    """Integers so small that every order of summation is exact."""
    return (np.arange(np.prod(shape)) % 7 - 3).astype(dtype).reshape(shape)


def assert_like_numpy(got, want):
    assert type(got) is np.ndarray and got.shape == want.shape and got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("op", ["sum", "max", "min"])
@pytest.mark.parametrize("dtype", ["f4", "i4"])
def test_as_numpy(op, dtype):
    x = whole((5, 33), dtype)
    assert_like_numpy(reduce(x, op=op), np.asarray(getattr(np, op)(x, axis=-1)))
    assert_like_numpy(reduce(x, op=op, keepdims=True), np.asarray(getattr(np, op)(x, axis=-1, keepdims=True)))
    assert_like_numpy(reduce(x, op=op, axis=None, initial=-5), np.asarray(getattr(np, op)(x, initial=-5)))


def test_the_first_line_names_the_default_axis():
    first = reduce.__doc__.splitlines()[0]
    assert "last axis" in first and "NumPy" in first
    assert reduce(np.ones((2, 3, 4), "f4")).shape == (2, 3)


def test_one_axis_gives_an_array():
    result = reduce(np.ones(16, "f4"))
    assert type(result) is np.ndarray and result.shape == () and result == 16


@pytest.mark.parametrize("shape", [(1, 33), (33, 1), (1, 1), (1,), (3, 1, 33), (1, 3, 33, 1)])
def test_extents_of_one(shape):
    x = whole(shape)
    assert_like_numpy(reduce(x), np.asarray(x.sum(-1)))
    assert_like_numpy(reduce(x, keepdims=True), x.sum(-1, keepdims=True))


def test_axes():
    x = whole((2, 3, 33))
    for axis in (2, -1, np.int64(2), (1, 2), (-1, -2), (0, 1, 2), None, ()):
        assert_like_numpy(reduce(x, axis=axis), np.asarray(np.add.reduce(x, axis=axis)))


@pytest.mark.parametrize("op", ["sum", "prod"])
@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (0, 0), (0,)])
def test_empty_arrays_are_numpy_s(op, shape, no_compiler):
    x = np.ones(shape, "f4")
    assert_like_numpy(reduce(x, op=op), np.asarray(getattr(np, op)(x, axis=-1)))
    plan = compile(x, op=op, target="cpu")
    assert plan.report["dispatches"] == [] and "NumPy" in plan.report["note"] and plan.tuning is None
    assert plan.tuning_source == "none: the array is empty"
    assert_like_numpy(plan(x), np.asarray(getattr(np, op)(x, axis=-1)))
    with pytest.raises(InputError, match="nothing was compiled"):
        plan.save(os.devnull)


def test_empty_maxima_with_a_start(no_compiler):
    assert_like_numpy(reduce(np.ones((2, 0), "f4"), op="max", initial=3), np.float32([3, 3]))


def test_dtype_as_numpy_s():
    x = np.full((2, 5), 2**30, "i4")
    assert_like_numpy(reduce(x), x.sum(-1))
    with np.errstate(all="ignore"):
        assert_like_numpy(reduce(x, dtype="i4"), x.sum(-1, dtype="i4"))
        assert_like_numpy(reduce(x, dtype=np.int32), x.sum(-1, dtype="i4"))
    assert_like_numpy(reduce(x, dtype="f8"), x.sum(-1, dtype="f8"))


@pytest.mark.parametrize("dtype", ["f2", ml_dtypes.bfloat16])
def test_small_floats_round_once(dtype):
    x = np.ones((3, 2049), "f4").astype(dtype)  # one by one they would stick at 2048 or 256
    assert_like_numpy(reduce(x), np.full(3, 2049, "f4").astype(dtype))


@pytest.mark.parametrize(
    "kind", ["strided", "backward", "fortran", "read-only", "big-endian", "unaligned", "list", "subclass", "bf16 strided"]
)
def test_arrays_of_every_kind(kind):
    x = whole((7, 100), ml_dtypes.bfloat16 if kind.startswith("bf16") else "f4")
    want = x.sum(-1)
    if kind.endswith("strided"):
        x = np.repeat(x, 2, 1)[:, ::2]
    elif kind == "backward":
        x = np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1]
    elif kind == "fortran":
        x = np.asfortranarray(x)
    elif kind == "read-only":
        x.flags.writeable = False
    elif kind == "big-endian":
        x = x.astype(">f4")
    elif kind == "unaligned":
        x = np.frombuffer(b"\0" + x.tobytes(), "u1")[1:].view("f4").reshape(7, 100)
    elif kind == "list":
        x, want = x.astype("f8").tolist(), want.astype("f8")
    elif kind == "subclass":
        x = x.view(np.recarray)
    assert_like_numpy(reduce(x), want)
    plan = compile(np.asarray(x), target="cpu")
    assert_like_numpy(plan(np.asarray(x)), want)


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i8"])
@pytest.mark.parametrize("shape", [(4, 4096), (5, 1023), (70000,)])
def test_arrays_anywhere_in_memory(dtype, shape):
    """Read where they lie, so that an aligned load would end the process."""
    plan = compile(np.empty(shape, dtype), target="cpu")
    room = np.empty(np.prod(shape) + 64, dtype)
    for shift in range(0, 64, 7):
        x = room[shift:][: np.prod(shape)].reshape(shape)
        x[...] = whole(shape, dtype)
        assert plan(x).tobytes() == reference(x, plan.tuning).tobytes()


def test_equal_keys_are_not_equal_arguments():
    x = -np.zeros((3, 4), "f4")
    assert not np.signbit(reduce(x, initial=0.0)).any()
    assert np.signbit(reduce(x, initial=-0.0)).all()
    assert not np.signbit(reduce(x, initial=0)).any()
    assert reduce(whole((3, 4)), axis=1).shape == (3,)
    for axis in (1.0, True):
        with pytest.raises(TypeError):
            reduce(whole((3, 4)), axis=axis)
    assert_like_numpy(reduce(whole((3, 4)), axis=np.array(1)), whole((3, 4)).sum(1))


def test_a_plan_is_made_once(compiled):
    x = whole((3, 40))
    for tuning in (None, Tuning.parse(SEED | {"workgroup": None}), {"reduction": [0, 64], "lane_basis": [[1, 16], [0, 1]]}):
        for _ in range(3):
            reduce(x, tuning)
    assert len(compiled) == 3


def test_both_names_of_the_reduction_tile_are_one_entry(compiled):
    x = whole((3, 40))
    one = reduce(x, {"reduction": [0, 64], "lane_basis": [[1, 16], [0, 1]]})
    other = reduce(x, {"partial_reduction": [0, 64], "lane_basis": [[1, 16], [0, 1]]})
    assert compiled[0] == compiled[-1] and one.tobytes() == other.tobytes()


def test_a_tuning_file_is_read_each_time(tmp_path, compiled):
    path, x = tmp_path / "tuning.json", whole(100)
    path.write_text(json.dumps(ONE))
    reduce(x, str(path))
    path.write_text(json.dumps(ONE | {"reduction": [32]}))
    reduce(x, str(path))
    assert [job.tuning.reduction_tile for job in compiled] == [(64,), (32,)]


def test_the_device_may_change(monkeypatch):
    x = whole((3, 40))
    reduce(x)
    monkeypatch.setenv("IREE_REDUCE_DEVICE", "local-sync")
    reduce(x)
    assert {plan._device.name for plan in api._plans.values()} == {"cpu", "local-sync"}


def test_the_kept_plans_are_bounded(monkeypatch):
    monkeypatch.setattr(api, "_MOST_PLANS", 2)
    for initial in range(5):
        assert reduce(np.ones((2, 0), "f4"), initial=initial).tolist() == [initial, initial]
    assert len(api._plans) == 2


def test_threads_share_plans():
    x = whole((9, 77))
    results, start = [], threading.Barrier(4)

    def work():
        start.wait()
        results.extend(reduce(x) for _ in range(50))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 200 and all((r == x.sum(-1)).all() for r in results)


@pytest.mark.parametrize("tuning", [SEED, None])
def test_equal_to_the_reference(tuning):
    x = np.random.default_rng(1).standard_normal((4, 4096), "f4")
    plan = compile(x, None, tuning, target="cpu")
    assert plan(x).tobytes() == reference(x, plan.tuning).tobytes()


def test_what_a_plan_says():
    plan = compile("4x4096xf32", None, SEED, target="gfx942")
    assert plan.tuning_source == "given" and plan.tuning.thread == (1, 4) and plan.target.name == "gfx942"
    assert plan.report["schema"] == 1 and plan.report["tuning"] == plan.tuning.to_dict()
    entry = plan.report["dispatches"][0]
    assert (entry["workgroup_size"], entry["subgroup_size"], entry["shared_memory_bytes"]) == ([256, 1, 1], 64, 64)
    assert json.loads(json.dumps(plan.report)) == plan.report
    assert compile((4, 4096), target="gfx942").tuning_source == "default for gfx942"
    assert compile((4, 1), target="cpu").tuning_source == "none: nothing is left to reduce (K = 1)"
    assert compile((4, 1), None, ONE, target="cpu").tuning_source == "given, not used: nothing is left to reduce (K = 1)"
    assert "default" in compile((4, 33), target="cpu", strategy="default").tuning_source
    assert "4x4096" in repr(plan) and "gfx942" in repr(plan)


def test_ways_to_give_a_shape(no_compiler):
    for shape, dtype in (((0, 4), "f8"), ([np.int64(0), 4], "f8"), ("0x4xf64", None), ("0x4xf64", "f8"), (np.ones((0, 4)), None)):
        problem = compile(shape, dtype, target="cpu").problem
        assert problem.shape == (0, 4) and problem.input.name == "f64"
    assert compile((0, 4), target="cpu").problem.input.name == "f32"
    assert compile((0, 4), "i4", out_dtype="f8", target="cpu").problem.result.name == "f64"


@pytest.mark.parametrize(
    ("shape", "options", "words"),
    [
        (4096, {}, "give a tuple of integers"),
        ((4.0, 4), {}, "give a tuple of integers"),
        ((4, -1), {}, "at least 0"),
        ("4x4xf32", {"dtype": "f8"}, "contradicts the f32"),
        ("4x4xi4", {}, "'i4' is not supported"),
        ((4, 4), {"timeout": 0}, "timeout 0"),
        ((4, 4), {"timeout": "1"}, "timeout '1'"),
        ((4, 4), {"strategy": "fast"}, "subgroup, iree, default"),
        ((4, 4), {"target": "gfx1"}, "gfx1100"),
        ((4, 4), {"op": "median"}, "sum, prod"),
    ],
)
def test_what_compile_refuses(shape, options, words, no_compiler):
    with pytest.raises(InputError, match=words):
        compile(shape, **{"target": "cpu", **options})
    with pytest.raises(TuningError, match="leave the tuning out"):
        compile((4, 64), None, {"reduction": [0, 64]}, target="cpu", strategy="default")


def test_a_plan_refuses_other_arrays():
    plan = compile((4, 64), target="cpu")
    for x, words in (
        (np.ones((4, 65), "f4"), "4x65 float32: the plan is for 4x64 float32; compile a plan"),
        (np.ones((4, 64)), 'float64: the plan is for 4x64 float32; cast it, e.g. x.astype\\("float32"\\)'),
        (1.0, "0-d float64"),
        (np.ma.ones((4, 64), "f4"), "masked"),
    ):
        with pytest.raises(InputError, match=words):
            plan(x)


@pytest.mark.skipif(has_gpu, reason="there is a GPU here")
def test_a_plan_for_a_gpu_that_is_not_here():
    plan = compile((4, 64), target="gfx942")
    with pytest.raises(DeviceError, match=r"the plan is for gfx942: device 'hip' is not usable here: .*HIP"):
        plan(np.ones((4, 64), "f4"))
    with pytest.raises(DeviceError, match="not usable here"):
        reduce(np.ones(4, "f4"), device="hip")


def test_a_saved_module_runs_by_iree_alone(tmp_path):
    import iree.runtime as rt

    path = tmp_path / "sum.vmfb"
    compile((4, 64), target="cpu").save(path)
    module = rt.load_vm_flatbuffer(path.read_bytes(), driver="local-sync")
    assert module.reduce(np.ones((4, 64), "f4")).to_host().tolist() == [64.0] * 4


def test_the_package_s_names():
    assert set(iree_reduce_plugin.__all__) <= set(dir(iree_reduce_plugin))
    for name in iree_reduce_plugin.__all__:
        assert hasattr(iree_reduce_plugin, name)
    assert callable(iree_reduce_plugin.verify) and callable(iree_reduce_plugin.reference)  # and not the modules of these names
    assert iree_reduce_plugin.Plan is Plan
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = iree_reduce_plugin.nothing
    with open(os.path.join(ROOT, "pyproject.toml")) as file:
        assert f'version = "{iree_reduce_plugin.__version__}"' in file.read()


def test_a_call_from_the_cache_imports_no_compiler():
    reduce(whole((3, 40)))  # now it is in the cache
    code = (
        "import sys, numpy as np, iree_reduce_plugin as p; p.reduce((np.arange(120) % 7 - 3).astype('f4').reshape(3, 40), device='cpu');"
        "heavy = {'iree.compiler', 'iree_reduce_plugin.backend', 'iree_reduce_plugin.processes', 'argparse', 'difflib', 'platformdirs'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": ROOT}, timeout=60)
    assert done.stdout == "[]\n", done.stderr


def test_an_array_of_no_dimension():
    assert compile("f32", target="cpu")(np.float32(4)) == 4 == reduce(4.0) and reduce(np.float32(4)).shape == ()
    assert reduce(np.float32(4), op=("argmax", "sum"), axis=None, keepdims=True)[0].shape == ()
