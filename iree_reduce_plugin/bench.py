"""Measures contenders that take turns: `measure` times them, `benchmark` does so for cases and for the memory that they read from.

All lie in one process and are timed in rounds, each contender of each case once a round, so that a clock or a neighbour that changes
meanwhile changes them all. Before each timing is a call that isn't counted: it wakes up threads that have gone to sleep, and brings into
the caches what the contender before it has displaced. Who begins changes from round to round.
"""

from __future__ import annotations

import contextlib
import gc
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .bench_bandwidth import Bandwidth
    from .bench_cases import Case, Setting

RIGHT, WRONG, ABSENT = "right", "WRONG", "absent"
LEAST_SECONDS = 2e-4  # of one timing: shorter calls are made several times, as reading the clock and waking up are not what is measured
MOST_CALLS = 1024

Clock = Callable[[], float]
Progress = Callable[[str], None]


@dataclass
class Contender:
    """One way to do a job. call: None where it is not timed, because its result is wrong or because it can't be had.

    times: how often a single `call` does the job. seconds: of one job, one entry a round.
    """

    name: str
    call: Callable[[], Any] | None
    state: str = RIGHT
    reason: str = ""
    times: int = 1
    seconds: list[float] = field(default_factory=list)

    @property
    def minimum(self) -> float | None:
        return min(self.seconds, default=None)

    @property
    def median(self) -> float | None:
        return statistics.median(self.seconds) if self.seconds else None


@dataclass(frozen=True)
class Benchmark:
    """What was measured. bandwidth: None where the arrays don't lie in this machine's memory, or where it was not asked for."""

    cases: tuple[Case, ...]
    rounds: int
    device: str
    bandwidth: Bandwidth | None


def silent(text: str) -> None:
    """Progress that nobody sees."""


def measure(groups: Sequence[Sequence[Contender]], rounds: int, clock: Clock = time.perf_counter, progress: Progress = silent) -> None:
    """Adds `rounds` entries to `seconds` of each contender that has a call. Calls before the first round are not counted."""
    running = [(c, c.call) for group in groups for c in group if c.call is not None]
    with _undisturbed():
        calls = {id(contender): _calls(call, clock) for contender, call in running}
        for turn in range(rounds):
            progress(f"round {turn + 1} of {rounds}")
            for group in groups:
                first = turn % max(1, len(group))
                for contender in (*group[first:], *group[:first]):
                    if contender.call is not None:
                        contender.call()
                        count = calls[id(contender)]
                        contender.seconds.append(_seconds(contender.call, count, clock) / contender.times)


def benchmark(setting: Setting, cases: Sequence[Case], rounds: int, read_bytes: int, progress: Progress = silent) -> Benchmark:
    """Measures cases that `Setting.case` made. read_bytes: of the array that the memory's bandwidth is measured on; 0: it is not."""
    from .bench_bandwidth import Memory  # the array's allocation is this module's business only where there is one

    is_local = setting.device.is_local
    progress("the memory's bandwidth")
    memory = Memory(read_bytes) if read_bytes and is_local else None
    groups = [[*case.contenders, *case.readers] for case in cases]
    measure(groups if memory is None else [*groups, memory.readers], rounds, progress=progress)
    device = f"{setting.device.name}: {setting.device.detail}"
    return Benchmark(tuple(cases), rounds, device, None if memory is None else memory.bandwidth())


def _calls(call: Callable[[], Any], clock: Clock) -> int:
    """How many make a timing: doubled until they take long enough, as the first ones are slower than those to come."""
    count = 1
    while count < MOST_CALLS and count * _seconds(call, count, clock) < LEAST_SECONDS:
        count *= 2
    return count


def _seconds(call: Callable[[], Any], count: int, clock: Clock) -> float:
    start = clock()
    for _ in range(count):
        call()
    return (clock() - start) / count


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Without the collector, as `timeit` does it, and without NumPy's warnings of what overflows."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        if was_enabled:
            gc.enable()
