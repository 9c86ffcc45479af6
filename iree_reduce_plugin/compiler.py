"""From a job to its artifact: from the cache, or compiled in a process of its own, within a time limit."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import cache
from .cache import Artifact
from .errors import CompileError, CompileTimeout, InputError, check
from .job import Job
from .toolchain import compiler_version

if TYPE_CHECKING:  # a call that finds its kernel in the cache needs none of these
    from .processes import WorkerPool
    from .worker import Request

__all__ = ["Artifact", "compile_job", "emit", "load_or_compile"]

DEFAULT_TIMEOUT = 120.0  # seconds
EMITS = ("dispatch", "schedule", "asm", "hsaco")  # what `emit` gives

# IREE warns of every reduction that is tiled in parallel; the schedule's combine is what makes it safe.
_HARMLESS = "tiling is not thread safe at axis"


def load_or_compile(job: Job, timeout: float = DEFAULT_TIMEOUT) -> Artifact:
    """The job's artifact from the cache, else compiled and stored there. Errors as `compile_job`."""
    key = cache.key(job)
    artifact = cache.load(key)
    if artifact is None:
        artifact = compile_job(job, timeout)
        cache.store(key, artifact)
    return artifact


def compile_job(job: Job, timeout: float = DEFAULT_TIMEOUT, dump_dir: str | Path | None = None) -> Artifact:
    """Compiles, without looking into the cache. dump_dir receives IREE's executable files, and is made where it is missing.

    Raises CompileTimeout past `timeout` seconds; CompileError where IREE refuses the module, ends abnormally or leaves our
    schedule aside, with one line of the reason and the path of the full log; TuningError and InputError as the builders do.
    """
    if dump_dir is not None:
        dump_dir = Path(dump_dir).absolute()
        try:
            dump_dir.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise CompileError(f"dump directory {dump_dir} can't be written: {e.strerror}") from e
    from .worker import Request

    vmfb, dispatches = _ask(Request(job, "artifact", None if dump_dir is None else str(dump_dir)), timeout)
    return Artifact(vmfb, tuple(dispatches))


def emit(job: Job, what: str, timeout: float = DEFAULT_TIMEOUT) -> str | bytes:
    """The job in another form. Errors as `compile_job`.

    what: `dispatch` or `schedule`, text which `iree-compile` with the flags of `compile_flags` and
    `--iree-codegen-transform-dialect-library=` (the schedule) turns into the same code object; `asm`, the assembly; `hsaco`,
    the code object's bytes.
    """
    from .worker import Request

    check(what in EMITS, f"emit {what!r}: use one of {', '.join(EMITS)}", InputError)
    check(
        what != "hsaco" or job.target.is_rocm,
        f"emit hsaco: target {job.target.name} has no code object of that kind; use a gfx target, or --dump-dir",
        InputError,
    )
    check(
        what != "asm" or job.target.description is None,
        f"emit asm: target {job.target.name} has none, its driver assembles the kernel; --dump-dir writes the SPIR-V or PTX",
        InputError,
    )
    reason = f"strategy {job.strategy!r}" if job.strategy != "subgroup" else "a problem with nothing left to reduce"
    check(what != "schedule" or job.has_schedule, f"emit schedule: {reason} has none; emit dispatch or asm instead", InputError)
    form: str | bytes = _ask(Request(job, what), timeout)
    return form


@functools.cache
def _pool() -> WorkerPool:
    from .processes import WorkerPool

    return WorkerPool()


def _ask(request: Request, timeout: float, pool: WorkerPool | None = None) -> Any:
    from .processes import WorkerDied, WorkerTimeout

    compiler_version()  # says that the compiler is missing, or untested, before a process starts
    pool = pool or _pool()
    worker = pool.take()
    try:
        reply = worker.ask(request, timeout)
    except WorkerTimeout:
        raise CompileTimeout(
            f"compiling {request.job.problem} ran past {timeout:g} s and was ended; raise timeout= (--timeout), or use fewer "
            "elements a lane (thread)",
            cache.save_log(worker.log),
        ) from None
    except WorkerDied as e:
        reason = telling_line(worker.log) or "it printed nothing"
        raise CompileError(f"the compiler {e} on {request.job.problem}: {reason}", cache.save_log(worker.log)) from None
    log = worker.log
    pool.give_back(worker)
    if reply.status == "done":
        return reply.value
    if reply.status == "refused" and not isinstance(reply.value, CompileError):
        raise reply.value
    message = reply.value or telling_line(log) or "no reason was given"
    prefix = "" if reply.status == "refused" else f"IREE failed on {request.job.problem}: "
    raise CompileError(f"{prefix}{message}", cache.save_log(log))


def telling_line(log: str) -> str | None:
    """The line of a log that says what went wrong: the first error, else the last line; None for an empty log."""
    lines = [line.strip() for line in log.splitlines() if line.strip() and _HARMLESS not in line]
    for line in lines:
        if re.search(r"\berror: |LLVM ERROR|Assertion .* failed", line):
            return line[:300]
    return lines[-1][:300] if lines else None
