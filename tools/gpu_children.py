"""Has work done by child processes and follows them, so that one that crashes or hangs costs a single finding.

A child is told what to do by name, and prints an event in JSON before and after each. One that ends, or is silent for too long, leaves
the name it was at; that one is recorded, and the next child goes on behind it.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CHILD = (sys.executable, "-W", "ignore", str(Path(__file__).with_name("gpu_child.py")))
BATCH = 25  # of names for a child: a fresh one now and then, whose memory and device are as new
STARTUP_SECONDS = 120.0  # until a child's first event: imports, and the device
MOST_ENDED = 8  # children that crashed or hung; after that many the device is given up


@dataclass(frozen=True)
class Finding:
    """How one piece of work ended: `right`, `wrong`, `refused`, `failed`, `crashed`, `hung` or `not run`. figures: its other results."""

    name: str
    state: str
    detail: str = ""
    figures: dict[str, Any] = field(default_factory=dict)


class ChildEnded(Exception):
    """A child crashed or hung, which `state` says; the message says how."""

    def __init__(self, state: str, message: str):
        super().__init__(message)
        self.state = state


def work_through(
    names: Sequence[str], task: Sequence[str], limit: float, say: Callable[[Finding], None], child: Sequence[str] = CHILD
) -> list[Finding]:
    """A finding for each name, in their order. task: the child's arguments before the names. limit: seconds for one of them."""
    findings: dict[str, Finding] = {}
    ended = 0

    def note(finding: Finding) -> None:
        findings[finding.name] = finding
        say(finding)

    while left := [name for name in names if name not in findings]:
        if ended >= MOST_ENDED:
            reason = f"given up after {ended} crashes"
            findings |= {name: Finding(name, "not run", reason) for name in left}
            break
        running = left[0]
        try:
            for event in _events([*child, *task, *left[:BATCH]], limit):
                running = event.pop("name")
                state, detail = event.pop("state"), " ".join(event.pop("detail", "").split())
                if state != "started":
                    note(Finding(running, state, detail, event))
                    running = next((name for name in left if name not in findings), running)
            if running in left[:BATCH] and running not in findings:
                raise ChildEnded("crashed", "the process ended before it was done")
        except ChildEnded as e:
            ended += 1
            note(Finding(running, e.state, str(e)))
    return [findings[name] for name in names]


def _events(command: Sequence[str], limit: float) -> Iterator[dict[str, Any]]:
    """What a child prints, until it ends well. Raises ChildEnded. Other lines, of drivers, are passed over."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True)
        lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=_pass_on, args=(process.stdout, lines), daemon=True).start()
        wait = max(limit, STARTUP_SECONDS)
        try:
            while True:
                try:
                    line = lines.get(timeout=wait)
                except queue.Empty:
                    raise ChildEnded("hung", f"no answer within {wait:g} s") from None
                if line is None:
                    break
                with contextlib.suppress(ValueError):
                    event = json.loads(line)
                    if isinstance(event, dict):
                        wait = limit
                        yield event
            code = process.wait()
            if code:
                raise ChildEnded("crashed", f"{_ending(code)}{_last_line(log)}")
        finally:
            _end(process)


def _pass_on(stream: Any, lines: queue.Queue[str | None]) -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


def _end(process: subprocess.Popen[str]) -> None:
    """Ends a child. One that waits in its driver for a hung device can't be: it is left behind."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)


def _ending(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return signal.Signals(-code).name
    return f"signal {-code}"


def _last_line(log: Any) -> str:
    """The end of what the child printed on standard error, where a driver says why it gave up."""
    log.seek(0)
    lines = [line.strip() for line in log.read().decode(errors="replace").splitlines() if line.strip()]
    return f": {lines[-1][:300]}" if lines else ""
