"""The compiler's process: reads requests from standard input, compiles, answers on standard output.

`python -m iree_reduce_plugin.worker` is started and ended by `processes`; an abort or a hang of the compiler ends here and
not in the user's process. Messages are pickles behind their length in 8 bytes, little-endian. Whatever LLVM prints goes to
standard error, which is the log.
"""

from __future__ import annotations

import os
import pickle
import queue
import sys
import threading
import traceback
from dataclasses import dataclass
from typing import Any, BinaryIO

from .errors import ReduceError
from .job import Job


@dataclass(frozen=True)
class Request:
    """want: `artifact` (vmfb and report), or a text or file: `dispatch`, `schedule`, `asm`, `hsaco`."""

    job: Job
    want: str = "artifact"
    dump_dir: str | None = None


@dataclass(frozen=True)
class Reply:
    """status: `done` (value: what was asked for), `refused` (value: a ReduceError) or `failed` (value: one line, or None
    where the log holds it)."""

    status: str
    value: Any


def write_message(stream: BinaryIO, message: object) -> None:
    data = pickle.dumps(message)
    stream.write(len(data).to_bytes(8, "little") + data)
    stream.flush()


def read_message(stream: BinaryIO) -> Any:
    """The next message; EOFError where the other side closed the pipe."""
    head = stream.read(8)
    if len(head) < 8:
        raise EOFError
    size = int.from_bytes(head, "little")
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return pickle.loads(data)


def answer(request: Request) -> Reply:
    """Does what the request asks."""
    from . import backend  # imports the compiler

    try:
        return Reply("done", backend.make(request.job, request.want, request.dump_dir))
    except ReduceError as e:
        return Reply("refused", e)
    except backend.Failed:
        return Reply("failed", None)
    except Exception as e:
        traceback.print_exc()
        lines = f"{type(e).__name__}: {e}".splitlines()
        return Reply("failed", " ".join(line.strip() for line in lines[:2]))  # an MLIRError has its reason in the second line


def main() -> None:
    # The pipes are moved away from 0 and 1 before anything can read or print there.
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    _no_core_dumps()
    waiting: queue.SimpleQueue[Request] = queue.SimpleQueue()

    def read() -> None:
        """In a thread of its own, so that the process ends with its parent even inside a compilation."""
        try:
            while True:
                waiting.put(read_message(requests))
        except EOFError:
            os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    while True:
        reply = answer(waiting.get())
        sys.stdout.flush()
        sys.stderr.flush()
        write_message(replies, reply)


def _no_core_dumps() -> None:
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, ValueError, OSError):
        pass  # a nicety


if __name__ == "__main__":
    main()
