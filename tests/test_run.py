"""The runtime's side of a call: how arrays reach the device, devices' names, forks and threads."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from iree_reduce_plugin import compiler, devices
from iree_reduce_plugin.errors import InputError
from iree_reduce_plugin.job import Job
from iree_reduce_plugin.problem import Problem
from iree_reduce_plugin.run import STOCK_ALIGNMENT, Executable
from iree_reduce_plugin.targets import find_target

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IREE_REDUCE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


def executable(shape, dtype="i32", device="cpu", alignment=STOCK_ALIGNMENT):
    """Sums the last axis by IREE's own code; integers compare exactly whatever the order."""
    problem = Problem.of(shape, dtype, out_dtype=dtype)
    artifact = compiler.load_or_compile(Job(problem, None, find_target("cpu"), "default"))
    run = Executable(artifact.vmfb, devices.find_device(device), shape, problem.inputs, shape[:-1], problem.results, alignment)
    return lambda x: run(x)[0]


def ramp(shape, dtype="i4"):
    return (np.arange(np.prod(shape)) % 1001).astype(dtype).reshape(shape)


@pytest.mark.parametrize("device", ["cpu", "local-sync", "local-task"])
def test_every_local_device(device):
    x = ramp((7, 100))
    result = executable((7, 100), device=device)(x)
    assert (result == x.sum(1)).all() and result.dtype == x.dtype and result.flags.owndata


def test_arrays_that_have_to_be_copied_first():
    run, x = executable((7, 100)), ramp((7, 100))
    want = x.sum(1)
    shifted = np.empty(701, "i4")[1:].reshape(7, 100)
    shifted[:] = x
    fixed = x.copy()
    fixed.flags.writeable = False
    bytes_off = np.empty(2801, "u1")[1:].view("i4").reshape(7, 100)
    bytes_off[:] = x
    for given in (shifted, fixed, bytes_off, np.asfortranarray(x), np.repeat(x, 2, 1)[:, ::2]):
        assert (run(given) == want).all()


def test_the_result_is_independent_of_later_calls():
    run, x = executable((7, 100)), ramp((7, 100))
    first = run(x)
    kept = first.copy()
    run(x + 1)
    assert (first == kept).all()


def test_one_dimension_gives_0_d_and_bf16_keeps_its_type():
    result = executable((16,), "bf16")(np.ones(16, Problem.of((16,), "bf16").input.numpy))
    assert result.shape == () and result.dtype.name == "bfloat16" and float(result) == 16


def test_another_shape_or_type_is_refused():
    run = executable((7, 100))
    with pytest.raises(InputError, match=r"\(7, 101\) int32: the kernel takes \(7, 100\) int32"):
        run(ramp((7, 101)))
    with pytest.raises(InputError, match="float32: the kernel takes"):
        run(ramp((7, 100), "f4"))


def test_small_inputs_run_in_the_callers_thread():
    cpu = devices.find_device("cpu")
    assert cpu.driver_for(64) == "local-sync" and cpu.driver_for(1 << 24) == "local-task"


def test_threads_share_an_executable():
    run, x = executable((2048, 512)), ramp((2048, 512))
    right: list[bool] = []
    threads = [threading.Thread(target=lambda i=i: right.extend((run(x + i) == (x + i).sum(1)).all() for _ in range(20))) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True] * 80


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("rows", [8, 4096])  # of either driver
def test_a_forked_child_computes_without_the_parents_threads_and_ends(rows):
    """In a process of its own, since the child ends as Python does, with everything destroyed, and quietly."""
    code = f"""
import os, sys, signal
sys.path[:] = {[ROOT, *sys.path]!r}
from tests.test_run import executable, ramp
run, x = executable(({rows}, 512)), ramp(({rows}, 512))
want = run(x)
child = os.fork()
if child == 0:
    signal.alarm(20)
    sys.exit(0 if (run(x) == want).all() else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")
