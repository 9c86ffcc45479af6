"""How fast this machine's cores can read: what a reduction's speed is held against.

What reads is NumPy's reduction of 64-bit integers by `add`, `bitwise_or` or `maximum`, whichever is fastest: the compiler makes vectors
of them, they have no chain of roundings to wait for, and one pass over the array is one call. Each thread has a part of the array and is
kept on a core of its own; NumPy lets go of the interpreter's lock meanwhile. A pass is repeated inside the threads until it takes
milliseconds, so that waking them up doesn't count. This is independent of the package's kernels, and nothing but reading takes time in it.

It is measured twice, as reading a cache is another thing than reading memory: on an array several times as large as the last-level cache
(`Memory`), and on each case's own array, in the same rounds (`readers_of`). A case is held against the faster of the two. What a copy
moves, counted as read and written, is reported for comparison: no reduction can move as much, as it has nothing to write.
"""

from __future__ import annotations

import functools
import glob
import os
import queue
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from .bench import Contender, measure
from .drivers import cores

Array = np.ndarray[Any, np.dtype[Any]]

LEAST_BYTES, MOST_BYTES = 256 << 20, 8 << 30
BEYOND = 3  # times the last-level cache
TRIALS = 3
_PASS_BYTES = 256 << 20  # passes over smaller arrays are repeated until they are as many
_MOST_PASSES = 1000

_METHODS: dict[str, Callable[[Array], Any]] = {
    "add": np.add.reduce,
    "bitwise_or": np.bitwise_or.reduce,
    "maximum": np.maximum.reduce,
}


@dataclass(frozen=True)
class Rate:
    """Bytes a second by so many threads, and the method that reached it."""

    threads: int
    method: str
    bytes_per_second: float


@dataclass(frozen=True)
class Bandwidth:
    """Of memory. cache: bytes of the last-level cache; None: not known."""

    bytes: int
    cache: int | None
    reading: tuple[Rate, ...]
    copying: tuple[Rate, ...]

    @property
    def best(self) -> float:
        return max(rate.bytes_per_second for rate in self.reading)


class Memory:
    """An array for the bandwidth of memory. `readers` are to be measured, in the rounds of the cases; `bandwidth` is what came of it."""

    def __init__(self, nbytes: int):
        words = np.ones(max(2 * len(cores()), nbytes // 8), np.uint64)  # written to: pages that never were are all the same one
        self._bytes = words.nbytes
        self._trials = [_reader(words, threads, method) for threads in thread_counts() for method in _METHODS]
        self._copies = [_copier(words, threads) for threads in thread_counts()]
        measure([self._trials, self._copies], TRIALS)
        self.readers = [min(self._of(threads), key=lambda one: one.minimum or 0.0) for threads in thread_counts()]

    def _of(self, threads: int) -> list[Contender]:
        return [one for one in self._trials if _threads_of(one) == threads]

    def bandwidth(self) -> Bandwidth:
        return Bandwidth(self._bytes, last_level_cache(), _rates(self.readers, self._bytes), _rates(self._copies, self._bytes))


def thread_counts() -> list[int]:
    """One, and as many as this process has cores."""
    return sorted({1, len(cores())})


def readers_of(x: Array) -> list[Contender]:
    """What reads the case's own array, by every number of threads; none for an array of less than a word each.

    >>> [reader.name for reader in readers_of(np.ones(4096, "f4"))][0]
    'read x1 add'
    """
    flat = x.reshape(-1).view(np.uint8)
    words = flat[: flat.size // 8 * 8].view(np.uint64)
    return [_reader(words, threads, method) for threads in thread_counts() if words.size >= threads for method in ("add", "bitwise_or")]


def best_rate(readers: Sequence[Contender], nbytes: int) -> Rate | None:
    """The fastest of those that were measured."""
    return max(_rates(readers, nbytes), key=lambda rate: rate.bytes_per_second, default=None)


def default_bytes() -> int:
    """Well beyond the last-level cache, and no more than a quarter of the machine's memory."""
    wanted = min(MOST_BYTES, max(LEAST_BYTES, BEYOND * (last_level_cache() or 0)))
    try:
        return min(wanted, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4)
    except (AttributeError, ValueError, OSError):  # not on Windows
        return wanted


@functools.cache
def last_level_cache() -> int | None:
    """Its bytes, as Linux says; None elsewhere."""
    sizes = []
    for path in glob.glob("/sys/devices/system/cpu/cpu0/cache/index*/size"):
        with open(path) as file:
            text = file.read().strip()
        if text[:-1].isdecimal() and text[-1] in "KMG":
            sizes.append(int(text[:-1]) << {"K": 10, "M": 20, "G": 30}[text[-1]])
    return max(sizes, default=None)


def _rates(readers: Sequence[Contender], nbytes: int) -> tuple[Rate, ...]:
    return tuple(Rate(_threads_of(one), one.name.split()[2], nbytes / one.minimum) for one in readers if one.minimum)


def _threads_of(reader: Contender) -> int:
    return int(reader.name.split()[1].removeprefix("x"))


def _reader(words: Array, threads: int, method: str) -> Contender:
    reduce, passes = _METHODS[method], min(_MOST_PASSES, max(1, _PASS_BYTES // words.nbytes))

    def read(part: Array) -> None:
        for _ in range(passes):
            reduce(part)

    return Contender(f"read x{threads} {method}", _spread(read, np.array_split(words, threads)), times=passes)


def _copier(words: Array, threads: int) -> Contender:
    """Copies one half to the other: as many bytes read and written as the array has."""
    source, target = words[: words.size // 2], words[words.size // 2 : words.size // 2 * 2]
    parts = list(zip(np.array_split(target, threads), np.array_split(source, threads), strict=True))
    return Contender(f"copy x{threads} copyto", _spread(lambda pair: np.copyto(*pair), parts))


def _spread(work: Callable[[Any], None], parts: list[Any]) -> Callable[[], None]:
    """A call that does the work on all parts at once, each in a thread of its own; of one part, in the caller's."""
    if len(parts) == 1:
        return lambda: work(parts[0])
    pool = _pool(len(parts))

    def call() -> None:
        for _ in pool.map(work, parts):
            pass

    return call


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Its threads are kept on a core each, as the system sometimes puts two on one."""
    left: queue.SimpleQueue[int] = queue.SimpleQueue()
    for core in cores():
        left.put(core)

    def keep() -> None:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {left.get()})  # 0: the calling thread

    return ThreadPoolExecutor(threads, "read", keep)
