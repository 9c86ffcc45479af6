"""Faults that were found by attacking the package, each kept as a case."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from iree_reduce_plugin import InputError, Tuning, TuningError, cache, cli, compile, reduce, reference
from iree_reduce_plugin.compare import same_bits
from iree_reduce_plugin.report import check_taken
from iree_reduce_plugin.verify import verify

SIXTEEN = {"reduction": [64], "lane_basis": [[16], [0]]}


def test_iree_cpu_drivers_take_subnormals_for_zeros():
    """IREE's runtime sets the processor so around each kernel; the README says it. If this fails, it no longer does, and should not."""
    x = np.full(64, 1e-40, "f4")
    assert reduce(x, SIXTEEN).item() == 0.0 and reference(x, SIXTEEN).item() > 0.0
    assert x.sum() > 0.0, "the caller's own arithmetic is left alone"


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "f2"])
def test_casting_each_element_to_bf16_is_refused(dtype):
    """IREE drops the rounding of an element that is widened again at once."""
    with pytest.raises(InputError, match="dtype bf16: casting each element"):
        reduce(np.ones(64, dtype), dtype="bf16")


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8"])
def test_casting_each_element_to_f16_rounds_it(dtype):
    x = np.random.default_rng(0).integers(0, 3000, (50, 37)).astype(dtype)
    assert same_bits(reduce(x, dtype="f2"), reference(x, compile(x, out_dtype="f2", target="cpu").tuning, dtype="f2"))


SETTLING = [("i4", "prod", 0), ("i4", "max", 2**31 - 1), ("i8", "min", -(2**63)), ("f4", "sum", np.nan), ("f4", "max", np.inf)]


@pytest.mark.parametrize("target", ["cpu", "gfx942"])
@pytest.mark.parametrize("dtype, op, initial", SETTLING)
def test_an_initial_that_settles_the_result(target, dtype, op, initial):
    """The compiler may notice that no element matters."""
    plan = compile((3, 64), dtype, op=op, initial=initial, target=target)
    if target == "cpu":
        x = np.ones((3, 64), dtype)
        with np.errstate(all="ignore"):
            assert np.array_equal(plan(x), getattr(np, op)(x, axis=-1, initial=initial), equal_nan=True)


def test_more_shared_memory_than_the_layout_needs_is_not_our_schedule():
    from iree_reduce_plugin.assembly import read_kernels
    from iree_reduce_plugin.compiler import emit
    from iree_reduce_plugin.errors import CompileError
    from iree_reduce_plugin.plan import make_job
    from iree_reduce_plugin.problem import Problem
    from iree_reduce_plugin.targets import find_target

    job, _ = make_job(Problem.of((4096,)), SIXTEEN | {"lane_basis": [[64], [0]], "subgroup_basis": [[1], [0]]}, find_target("gfx942"))
    asm = emit(job, "asm")
    (name,) = read_kernels(asm)
    facts = {"kernel": name, "pipeline": "no_pipeline", "workgroup_count": [1, 1, 1], "workgroup_size": [64, 1, 1], "subgroup_size": 64}
    check_taken(job, [facts], read_kernels(asm))
    with pytest.raises(CompileError, match="shared memory 0 expected, 4096 found"):
        check_taken(job, [facts], read_kernels(asm.replace(".group_segment_fixed_size: 0", ".group_segment_fixed_size: 4096")))
    with pytest.raises(CompileError, match="pipeline no_pipeline expected"):
        check_taken(job, [facts | {"pipeline": "LLVMGPUVectorDistribute"}], read_kernels(asm))


@pytest.mark.parametrize("text", ["/" * 40, "#a" + " //" * 40 + "!", " " * 10000 + "!", "#a\n" + "// x\n" * 1000 + "!"])
def test_text_that_no_parser_should_ponder(text):
    start = time.perf_counter()
    with pytest.raises(TuningError):
        Tuning.parse(text)
    assert time.perf_counter() - start < 1


def test_a_pipe_in_the_place_of_a_cache_entry(tmp_path, monkeypatch):
    monkeypatch.setenv("IREE_REDUCE_CACHE_DIR", str(tmp_path))
    (tmp_path / "kernels").mkdir()
    os.mkfifo(tmp_path / "kernels" / "k.kernel")
    assert cache.load("k") is None


@pytest.mark.parametrize("payload", [b"", b"[]", (2).to_bytes(8, "little") + b"[]", (1).to_bytes(8, "little") + b"{vmfb"])
def test_a_cache_entry_with_a_right_checksum_and_wrong_content(payload):
    assert cache.Artifact.from_bytes(cache._MAGIC + hashlib.sha256(payload).digest() + payload) is None


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["run", "--input", ""], "does not exist"),
        (["verify", "--shape", "4x64xi32", "--initial", "inf"], "initial inf"),
        (["verify", "--shape", "4x4096xf32", "--initial", "9" * 400], "initial 9"),
        (["verify", "--shape", "٤xf32"], "shape"),
        (["verify", "--shape", "4x4096xf32", "--axis", "9" * 4000], "..."),
        (["compile", "--shape", "4x64xf32", "-o", "x" * 300], "can't be written"),
        (["compile", "--shape", "4x64xf32", "--dump-dir", "x" * 300], "can't be written"),
        (["compile", "--shape", "4x64xf32", "--bogus"], "see iree-reduce-plugin compile --help"),
    ],
)
def test_refused_in_one_line(capsys, no_compiler, arguments, words):
    assert cli.main(arguments) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and words in err and len(err) < 1100


def test_a_broken_header(capsys, tmp_path):
    body = b"(" * 117 + b"\n"
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(body).to_bytes(2, "little") + body)
    assert cli.main(["run", "--input", str(tmp_path / "x.npy")]) == 2
    assert "is not an array that can be used" in capsys.readouterr().err


@pytest.mark.parametrize("shape", [b"4xf32", {4}, (True, 4), {4: 4}])
def test_shapes_that_only_look_like_one(shape):
    with pytest.raises(InputError):
        compile(shape, target="cpu")


@pytest.mark.parametrize("keepdims", ["x", None, [], 1.5, np.array([1, 2])])
def test_keepdims_is_a_boolean_as_in_numpy(keepdims):
    with pytest.raises(TypeError):
        reduce(np.ones(4, "f4"), keepdims=keepdims)


def test_matrices_are_refused():
    with pytest.raises(InputError, match=r"numpy\.asarray"):
        reduce(np.matrix("1 2; 3 4"))


def test_too_many_workgroups_are_refused():
    with pytest.raises(TuningError, match="workgroups along rows, above the 2147483647 of gfx942: use at least 257"):
        verify({"workgroup": [64, 0], "partial_reduction": [0, 2], "lane_basis": [[64, 1], [0, 1]]}, (1 << 39, 2), target="gfx942")


def test_without_standard_output():
    program = "import sys, os; os.close(1); sys.stdout = None\nfrom iree_reduce_plugin.cli import main\nsys.exit(main(['devices']))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "Error" not in done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_while_another_thread_reduces():
    """The child gets locks that are taken by a thread it does not have. In a process of its own, for the threads' sake."""
    program = """
import os, threading, time
import numpy as np
from iree_reduce_plugin import reduce
x = np.ones(1 << 20, "f4")
reduce(x, device="local-sync")
threading.Thread(target=lambda: [reduce(x, device="local-sync") for _ in range(10**6)], daemon=True).start()
time.sleep(0.1)
child = os.fork()
if child == 0:
    os._exit(0 if reduce(x, device="local-sync").item() == 1 << 20 else 3)
for _ in range(200):
    done, status = os.waitpid(child, os.WNOHANG)
    if done:
        os._exit(os.waitstatus_to_exitcode(status))
    time.sleep(0.05)
os.kill(child, 9)
os._exit(4)
"""
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", program], timeout=60).returncode == 0


def test_threads_that_call_first_at_once():
    results, x = [], np.arange(5 * 333, dtype="f4").reshape(5, 333)
    tuning = {"reduction": [0, 64], "lane_basis": [[1, 16], [0, 1]]}
    threads = [threading.Thread(target=lambda: results.append(reduce(x, tuning))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8 and all(same_bits(r, results[0]) for r in results)
