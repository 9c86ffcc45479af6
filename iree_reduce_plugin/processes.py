"""The compiler's processes, kept idle between jobs: starting, asking, ending them. Knows nothing of what they compile."""

from __future__ import annotations

import atexit
import os
import pickle
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from typing import Any

from .errors import CompileError

# A compilation leaves about 4 MB behind in its process; this many keep one under about 0.5 GB.
JOBS_PER_PROCESS = 64


class WorkerDied(Exception):
    """The process ended before it answered; `code` is its return code (negative: the signal)."""

    def __init__(self, code: int):
        super().__init__(_ending(code))
        self.code = code


class WorkerTimeout(Exception):
    """The process was ended because the time limit had passed."""


def worker_command() -> list[str]:
    """Starts the worker on this process's module path, so that it finds the same package wherever that came from."""
    if not sys.executable:
        raise CompileError("no Python executable is known (sys.executable is empty), so the compiler's process can't be started")
    path = [os.path.abspath(entry) for entry in sys.path]
    return [sys.executable, "-c", f"import sys; sys.path[:] = {path!r}; from iree_reduce_plugin.worker import main; main()"]


class Worker:
    """One process, one request at a time. Its standard error is a nameless file, which `log` reads."""

    def __init__(self, command: Sequence[str]):
        self.jobs = 0
        self._log = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - as long as the worker
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                bufsize=0,
                start_new_session=True,  # Ctrl-C is this process's to handle, and the whole group can be ended
            )
        except OSError as e:
            self._log.close()
            raise CompileError(f"the compiler's process can't be started: {e}") from e

    def ask(self, request: object, timeout: float) -> Any:
        """The answer. Raises WorkerDied, WorkerTimeout; these and whatever else interrupts the wait end the process."""
        self.jobs += 1
        deadline = time.monotonic() + timeout
        os.ftruncate(self._log.fileno(), 0)
        os.lseek(self._log.fileno(), 0, os.SEEK_SET)  # the process writes at the same offset
        try:
            data = pickle.dumps(request)
            self._write(len(data).to_bytes(8, "little") + data)
            return pickle.loads(self._read(int.from_bytes(self._read(8, deadline), "little"), deadline))
        except BaseException:
            self.kill()
            raise

    @property
    def log(self) -> str:
        """What the process printed since the last request."""
        size = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), size, 0).decode(errors="replace")

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """Ends the process and all it started. The log stays readable."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            self._process.kill()
        self._process.wait()
        self.forget()

    def close(self) -> None:
        """Lets an idle process end by itself: it does so when its input closes."""
        self.forget()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self.kill()

    def forget(self) -> None:
        """Closes this side of the pipes, and nothing else."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _write(self, data: bytes) -> None:
        stdin = self._process.stdin
        if stdin is None:
            raise WorkerDied(self._process.wait())
        try:
            while data:
                data = data[stdin.write(data) :]
        except BrokenPipeError:
            raise WorkerDied(self._process.wait()) from None

    def _read(self, size: int, deadline: float) -> bytes:
        stdout = self._process.stdout
        if stdout is None:
            raise WorkerDied(self._process.wait())
        parts = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while len(parts) < size:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise WorkerTimeout
                part = os.read(stdout.fileno(), size - len(parts))
                if not part:
                    raise WorkerDied(self._process.wait())
                parts += part
        return bytes(parts)


class WorkerPool:
    """Idle processes for any number of threads. One starts only where none is idle; at most `keep` idle ones are kept."""

    def __init__(self, command: Sequence[str] | None = None, keep: int | None = None):
        self._command = command
        self._keep = keep or os.cpu_count() or 1
        self._idle: list[Worker] = []
        self._lock = threading.Lock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)
        atexit.register(self.close)

    def take(self) -> Worker:
        with self._lock:
            while self._idle:
                worker = self._idle.pop()
                if worker.alive:
                    return worker
                worker.forget()
        return Worker(self._command or worker_command())

    def give_back(self, worker: Worker) -> None:
        with self._lock:
            if worker.alive and worker.jobs < JOBS_PER_PROCESS and len(self._idle) < self._keep:
                self._idle.append(worker)
                return
        worker.close()

    def close(self) -> None:
        """Ends the idle processes."""
        with self._lock:
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.forget()
        for worker in idle:
            worker.close()

    def _after_fork(self) -> None:
        # The processes are the parent's: they are not to be used, killed or waited for here. The pipes are closed, or a
        # process would outlive the parent for as long as this one lives.
        self._lock = threading.Lock()
        for worker in self._idle:
            worker.forget()
            worker._process.returncode = 0  # keeps Popen from waiting for what isn't its child
        self._idle = []


def _ending(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"ended by signal {-code}"
