"""The compiler's process: crashes, hangs and refusals reach the caller as one clear error, and nothing is left running.

The crashes and hangs are those of stand-in workers, small programs given to the pool as its command.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from iree_reduce_plugin import compiler
from iree_reduce_plugin.assembly import Kernel
from iree_reduce_plugin.errors import CompileError, CompileTimeout, InputError
from iree_reduce_plugin.job import Job
from iree_reduce_plugin.problem import Problem
from iree_reduce_plugin.processes import WorkerPool
from iree_reduce_plugin.report import build_report, check_taken
from iree_reduce_plugin.targets import find_target
from iree_reduce_plugin.toolchain import compile_flags
from iree_reduce_plugin.tuning import Tuning
from iree_reduce_plugin.worker import Request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SEED = {"workgroup": [4, 0], "partial_reduction": [0, 256], "lane_basis": [[4, 16], [0, 1]], "subgroup_basis": [[1, 4], [0, 1]]}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("IREE_REDUCE_CACHE_DIR", str(tmp_path / "cache"))


def job(target="cpu", strategy="default", tuned=False):
    problem = Problem.of((4, 4096))
    return Job(problem, Tuning.parse(SEED).resolve(problem) if tuned else None, find_target(target), strategy)


def stand_in(body: str) -> WorkerPool:
    """A pool whose worker takes one request, then does `body`."""
    code = f"""
        import os, signal, sys, time, subprocess
        from iree_reduce_plugin.worker import Reply, read_message, write_message
        def serve():
            while True:
                request = read_message(sys.stdin.buffer)
                {body}
        serve()
    """
    return WorkerPool([sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}\n{textwrap.dedent(code)}"])


def ask(pool: WorkerPool, timeout: float = 20):
    return compiler._ask(Request(job()), timeout, pool)


def test_an_abort_is_an_error_with_the_telling_line_and_the_log():
    pool = stand_in('os.write(2, b"warning: x\\nLLVM ERROR: cannot select\\nstack\\n"); os.abort()')
    with pytest.raises(CompileError, match=r"ended by SIGABRT .*: LLVM ERROR: cannot select") as caught:
        ask(pool)
    assert "stack" in caught.value.log.read_text()


def test_a_quiet_end():
    with pytest.raises(CompileError, match=r"ended with exit code 3 .*it printed nothing"):
        ask(stand_in("os._exit(3)"))


def test_a_hang_ends_with_its_whole_process_group(tmp_path):
    pids = tmp_path / "pids"
    body = f'child = subprocess.Popen(["sleep", "100"]); open({str(pids)!r}, "w").write(f"{{os.getpid()}} {{child.pid}}"); time.sleep(100)'
    start = time.monotonic()
    with pytest.raises(CompileTimeout, match=r"ran past 2 s .*raise timeout="):
        ask(stand_in(body), timeout=2)
    assert time.monotonic() - start < 10
    for pid in map(int, pids.read_text().split()):
        assert ends(pid)


def ends(pid: int) -> bool:
    """Whether the process is gone (or a zombie) within five seconds."""
    for _ in range(100):
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rsplit(")", 1)[1].split()[0] == "Z":
                    return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


def test_an_interrupt_ends_the_worker(monkeypatch):
    pool = stand_in("time.sleep(100)")
    worker = pool.take()
    monkeypatch.setattr(pool, "take", lambda: worker)

    def interrupted(size, deadline):
        raise KeyboardInterrupt

    monkeypatch.setattr(worker, "_read", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ask(pool)
    assert not worker.alive


def test_refusals_keep_their_class_and_the_worker_goes_on():
    pool = stand_in(
        'from iree_reduce_plugin.errors import InputError; write_message(sys.stdout.buffer, Reply("refused", InputError("no")))'
    )
    workers = []
    for _ in range(2):
        with pytest.raises(InputError, match="no"):
            ask(pool)
        workers.append(pool._idle[0])
    assert workers[0] is workers[1]


def test_an_error_of_iree_is_one_line_without_the_harmless_warning():
    body = (
        'os.write(2, b"a: warning: tiling is not thread safe at axis #2\\nloc(x): error: no such op\\nmore\\n"); '
        'write_message(sys.stdout.buffer, Reply("failed", None))'
    )
    with pytest.raises(CompileError) as caught:
        ask(stand_in(body))
    assert str(caught.value).startswith("IREE failed on sum of 4x4096xf32 over axes (1,): loc(x): error: no such op (full log: ")


def test_a_worker_that_died_idle_is_replaced():
    pool = stand_in('write_message(sys.stdout.buffer, Reply("done", os.getpid()))')
    first = ask(pool)
    assert ask(pool) == first
    pool._idle[0]._process.kill()
    pool._idle[0]._process.wait()
    assert ask(pool) != first


def test_threads_have_workers_of_their_own():
    pool = stand_in('time.sleep(0.5); write_message(sys.stdout.buffer, Reply("done", os.getpid()))')
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(ask(pool))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_leaves_the_parents_workers_alone():
    pool = stand_in('write_message(sys.stdout.buffer, Reply("done", os.getpid()))')
    first = ask(pool)
    child = os.fork()
    if child == 0:
        os._exit(0 if ask(pool) != first else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert ask(pool) == first


def test_the_worker_ends_with_its_parent_even_inside_a_compilation(tmp_path):
    """The parent starts the real worker on a job and is killed at once."""
    script = tmp_path / "parent.py"
    script.write_text(
        textwrap.dedent(f"""
            import os, pickle, sys
            sys.path[:] = {[ROOT, *sys.path]!r}
            from iree_reduce_plugin.processes import Worker, worker_command
            from tests.test_compiler import job
            from iree_reduce_plugin.worker import Request
            worker = Worker(worker_command())
            data = pickle.dumps(Request(job()))
            worker._write(len(data).to_bytes(8, "little") + data)
            print(worker._process.pid, flush=True)
            os.kill(os.getpid(), 9)
        """)
    )
    found = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert found.stdout, found.stderr
    assert ends(int(found.stdout))


def test_a_real_job_is_compiled_once(monkeypatch):
    first = compiler.load_or_compile(job())
    monkeypatch.setattr(compiler, "compile_job", None)
    assert compiler.load_or_compile(job()) is first
    assert [d["workgroup_count"] for d in first.dispatches] == [[4, 1, 1]]
    assert first.dispatches[0]["vgprs"] is None


def test_the_report_of_a_rocm_kernel_and_the_dump(tmp_path):
    gpu = job("gfx942")
    plain, dumped = compiler.compile_job(gpu), compiler.compile_job(gpu, dump_dir=tmp_path / "dump")
    report = build_report(gpu, "given", plain.dispatches)
    assert report["schema"] == 1 and report["target"] == "gfx942" and report["tuning"] is None
    (entry,) = report["dispatches"]
    assert entry["bindings"] == 2 and entry["subgroup_size"] == 64 and entry["spills"] == 0 and entry["vgprs"] > 0
    assert dumped.dispatches == plain.dispatches
    (code,) = (tmp_path / "dump").glob("*.hsaco")
    assert code.read_bytes() == compiler.emit(gpu, "hsaco")
    assert "s_endpgm" in compiler.emit(gpu, "asm")


def test_the_dispatch_text_gives_the_same_code_object(tmp_path):
    gpu = job("gfx942")
    (tmp_path / "dispatch.mlir").write_text(compiler.emit(gpu, "dispatch"))
    tool = [sys.executable, "-m", "iree.compiler.tools.scripts.iree_compile"]
    command = [*tool, str(tmp_path / "dispatch.mlir"), *compile_flags(gpu.target), "-o", str(tmp_path / "out.vmfb")]
    subprocess.run([*command, f"--iree-hal-dump-executable-binaries-to={tmp_path}"], check=True, capture_output=True)
    (code,) = tmp_path.glob("*.hsaco")
    assert code.read_bytes() == compiler.emit(gpu, "hsaco")


@pytest.mark.parametrize(("target", "what"), [("cpu", "hsaco"), ("cpu", "nonsense"), ("gfx942", "schedule")])
def test_what_cannot_be_emitted_is_refused(target, what):
    with pytest.raises(InputError, match=f"emit '?{what}'?"):
        compiler.emit(job(target), what)


FACTS = {
    "kernel": "k", "workgroup_count": [1, 1, 1], "workgroup_size": [256, 1, 1], "subgroup_size": 64,
    "bindings": 2, "pipeline": "no_pipeline",
}  # fmt: skip


def test_a_schedule_that_was_taken():
    check_taken(job("gfx942", "subgroup", True), [FACTS], {"k": Kernel("k", 64, 1, 1, 0, 64)})
    check_taken(job("cpu", "subgroup", True), [FACTS | {"workgroup_size": [1, 1, 1], "subgroup_size": None}], {})
    check_taken(job("gfx942"), [], {})


@pytest.mark.parametrize(
    ("target", "change", "message"),
    [
        ("cpu", {"pipeline": "#iree_cpu.pipeline<DoubleTilingExpert>"}, "pipeline no_pipeline expected, #iree_cpu"),
        ("gfx942", {"workgroup_size": [1024, 1, 1]}, r"workgroup_size \[256, 1, 1\] expected, \[1024, 1, 1\] found"),
        ("gfx942", {"subgroup_size": 32}, "subgroup_size 64 expected, 32 found"),
        ("gfx942", {"workgroup_count": [4, 1, 1]}, r"workgroup_count \[1, 1, 1\] expected, \[4, 1, 1\] found"),
    ],
)
def test_a_schedule_that_was_not_taken(target, change, message):
    with pytest.raises(CompileError, match=f"did not take the schedule: k: .*{message}"):
        check_taken(job(target, "subgroup", True), [FACTS | change], {})


def test_more_dispatches_than_one_are_not_our_schedule():
    with pytest.raises(CompileError, match="expected 1 dispatch, found 2"):
        check_taken(job("gfx942", "subgroup", True), [FACTS, FACTS], {})
