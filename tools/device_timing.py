"""Times a reduction on data that already lies on the device, beside the device's own copy of the same bytes.

The kernel is the package's, compiled once more with an interface that doesn't wait (`async-external`), so that many calls are submitted
and waited for together, as the copies are. A ring of equal buffers takes turns: the data of a call is not what the last one left in a
cache. Kernel and copy alternate round by round, so that a clock that changes meanwhile changes both.
"""

from __future__ import annotations

import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import iree.runtime as rt
import numpy as np
from iree.runtime.array_interop import map_dtype_to_element_type

from iree_reduce_plugin.compare import same_bits
from iree_reduce_plugin.compiler import DEFAULT_TIMEOUT, emit, telling_line
from iree_reduce_plugin.devices import Device
from iree_reduce_plugin.drivers import OpenDevice, instance, open_driver
from iree_reduce_plugin.errors import CompileError
from iree_reduce_plugin.job import Job
from iree_reduce_plugin.plan import make_job
from iree_reduce_plugin.problem import Problem
from iree_reduce_plugin.reference import tree
from iree_reduce_plugin.shape_text import parse_shape
from iree_reduce_plugin.targets import find_target
from iree_reduce_plugin.toolchain import compile_flags

RING_BYTES = 512 << 20  # more than any cache holds; in software, two buffers
MOST_BUFFERS = 128
ROUND_SECONDS = 0.01  # a round has as many calls as take that long
MOST_CALLS = 64

_HOST = int(rt.MemoryType.HOST_LOCAL) | int(rt.MemoryType.DEVICE_VISIBLE)
_LOCAL = int(rt.MemoryType.DEVICE_LOCAL)
_USAGE = int(rt.BufferUsage.DEFAULT) | int(rt.BufferUsage.MAPPING)


def measure(device: Device, text: str, rounds: int, software: bool) -> dict[str, Any]:
    """Seconds a call, minimum and median over the rounds, of the sum of the last axis with the default tuning, and of the copy.

    text: shape and type, e.g. `4096x4096xf32`. `right`: whether the result that was timed is the reference's, bit for bit.
    """
    shape, element = parse_shape(text)
    problem = Problem.of(shape, element)
    job, _ = make_job(problem, None, find_target(device.target))
    timed = _Timed(job, open_driver(device.driver_for(1 << 30), device.device_id))
    x = np.random.default_rng(0).standard_normal((problem.rows, problem.columns), np.float32).astype(problem.input.numpy)
    timed.fill(x, 2 if software else max(2, min(MOST_BUFFERS, -(-RING_BYTES // x.nbytes))))
    right = same_bits(timed.result(), tree(x, problem, job.layout).reshape(problem.kept_shape))
    kernel, copy = timed.rounds(rounds)
    figures = {"kernel": _figures(kernel), "copy": _figures(copy)}
    result_bytes = problem.result.bytes * math.prod(problem.kept_shape)
    return {"shape": text, "right": right, "bytes": x.nbytes, "result_bytes": result_bytes, "rounds": rounds, **figures}


def _figures(seconds: list[float]) -> dict[str, float]:
    return {"min": min(seconds), "median": statistics.median(seconds)}


class _Timed:
    """A kernel and the ring of buffers that it reads. Whatever is submitted signals a semaphore of its own."""

    def __init__(self, job: Job, opened: OpenDevice):
        self._job, self._opened, self._next = job, opened, 0
        module = rt.VmModule.copy_buffer(instance(), _compiled(job))
        self._context = rt.VmContext(instance(), modules=[opened.hal_module, module])
        self._function = module.lookup_function("reduce")
        self._scratch = [opened.allocator.allocate_buffer(_LOCAL, _USAGE, 64) for _ in range(2)]

    def fill(self, x: Any, count: int) -> None:
        """Makes the ring: `count` buffers with the array in each."""
        code, opened = map_dtype_to_element_type(x.dtype), self._opened
        first = opened.allocator.allocate_buffer_copy(_LOCAL, _USAGE, opened.device, x.reshape(self._job.problem.loops), code)
        buffers = [first.get_buffer(), *(opened.allocator.allocate_buffer(_LOCAL, _USAGE, x.nbytes) for _ in range(count - 1))]
        self._ring = [rt.HalBufferView(buffer, self._job.problem.loops, int(code)) for buffer in buffers]
        for buffer in buffers[1:]:
            self._wait([self._queue_copy(buffers[0], buffer)])

    def result(self) -> Any:
        """What one call gives, as an array."""
        problem = self._job.problem
        done, outputs = self._call()
        done.wait()
        size = problem.result.bytes * math.prod(problem.kept_shape)
        staging = self._opened.allocator.allocate_buffer(_HOST, _USAGE, size)
        self._wait([self._queue_copy(outputs.get_as_object(0, rt.HalBufferView).get_buffer(), staging)])
        return staging.map().asarray(problem.kept_shape, problem.result.numpy).copy()

    def rounds(self, count: int) -> tuple[list[float], list[float]]:
        """Seconds a call in each round, of the kernel and of the copy. One round before the first one is not counted."""
        ways: tuple[Callable[[], Any], ...] = (self._call, lambda: (self._copy(), None))
        calls = [self._calls(way) for way in ways]
        found = [[self._seconds(way, n) for way, n in zip(ways, calls, strict=True)] for _ in range(count + 1)][1:]
        kernel, copy = zip(*found, strict=True)
        return list(kernel), list(copy)

    def _calls(self, way: Callable[[], Any]) -> int:
        """How many make a round: doubled until they take long enough, as the wait for one may take longer than its work."""
        calls = 1
        self._seconds(way, calls)
        while calls < MOST_CALLS and calls * self._seconds(way, calls) < ROUND_SECONDS:
            calls *= 2
        return calls

    def _seconds(self, way: Callable[[], Any], calls: int) -> float:
        self._wait([self._queue_copy(*self._scratch)])  # until the queue is empty: the last round's results are freed in it, too
        start = time.perf_counter()
        submitted = [way() for _ in range(calls)]  # their results are kept until all are done
        self._wait([done for done, _ in submitted])
        return (time.perf_counter() - start) / calls

    def _call(self) -> tuple[Any, Any]:
        ready, done = self._fences()
        inputs, outputs = rt.VmVariantList(3), rt.VmVariantList(1)
        for reference in (self._ring[self._turn()], ready, done):
            inputs.push_ref(reference)
        self._context.invoke(self._function, inputs, outputs)
        return done, outputs

    def _copy(self) -> Any:
        at = self._turn()
        return self._queue_copy(self._ring[at].get_buffer(), self._ring[(at + 1) % len(self._ring)].get_buffer())

    def _turn(self) -> int:
        self._next = (self._next + 1) % len(self._ring)
        return self._next

    def _queue_copy(self, source: Any, target: Any) -> Any:
        ready, done = self._fences()
        self._opened.device.queue_copy(source, target, ready, done)
        return done

    def _fences(self) -> tuple[Any, Any]:
        """One that has been reached, and one that whatever is submitted will reach."""
        semaphore = self._opened.device.create_semaphore(0)
        return rt.HalFence.create_at(semaphore, 0), rt.HalFence.create_at(semaphore, 1)

    def _wait(self, fences: list[Any]) -> None:
        for fence in fences:
            fence.wait()


def _compiled(job: Job) -> bytes:
    """The module, by `iree-compile`: the same texts as the package compiles, and a function that takes and gives fences."""
    with tempfile.TemporaryDirectory(prefix="iree_reduce_") as name:
        folder = Path(name)
        for what in ("dispatch", "schedule"):
            (folder / f"{what}.mlir").write_text(str(emit(job, what)))
        flags = [*compile_flags(job.target), "--iree-execution-model=async-external", "-o", str(folder / "out.vmfb")]
        flags.append(f"--iree-codegen-transform-dialect-library={folder / 'schedule.mlir'}")
        command = [sys.executable, "-m", "iree.compiler.tools.scripts.iree_compile", str(folder / "dispatch.mlir"), *flags]
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEFAULT_TIMEOUT)
        if done.returncode:
            raise CompileError(f"iree-compile failed on {job.problem}: {telling_line(done.stderr) or done.returncode}")
        return (folder / "out.vmfb").read_bytes()
