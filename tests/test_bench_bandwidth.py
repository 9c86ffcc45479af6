"""What a case of `bench` is held against: how fast its array, and memory, can be read."""

from __future__ import annotations

import numpy as np

from iree_reduce_plugin import bench_bandwidth
from iree_reduce_plugin.bench import Benchmark, Contender, measure
from iree_reduce_plugin.bench_bandwidth import Bandwidth, Memory, Rate, best_rate, readers_of
from iree_reduce_plugin.bench_cases import Case, Spec
from iree_reduce_plugin.bench_report import rows, table


def test_what_reads_reads_all_of_it():
    """As the bytes that are counted are read: a word anywhere changes the total."""
    for size in (1, 5, 4096):
        x = np.zeros(size, "u4")
        for reader in readers_of(x):
            assert reader.call is not None and reader.times >= 1
    words = np.arange(10, dtype=np.uint64)
    seen = []
    bench_bandwidth._spread(seen.append, np.array_split(words, 3))()
    assert sorted(np.concatenate(seen).tolist()) == list(range(10))


def test_the_memory_s_bandwidth():
    memory = Memory(1 << 16)
    for reader, threads in zip(memory.readers, bench_bandwidth.thread_counts(), strict=True):
        assert reader.minimum == min(one.minimum for one in memory._trials if f" x{threads} " in one.name)
    measure([memory.readers], 2)
    found = memory.bandwidth()
    assert found.bytes == 1 << 16 and [rate.threads for rate in found.reading] == bench_bandwidth.thread_counts()
    assert found.best == max(rate.bytes_per_second for rate in found.reading) > 0 and len(found.copying) == len(found.reading)
    assert all(rate.method in ("add", "bitwise_or", "maximum") for rate in found.reading)


def test_the_fastest_reader_is_what_a_case_is_held_against():
    slow, fast = Contender("read x1 add", None, seconds=[4.0, 3.0]), Contender("read x2 add", None, seconds=[2.0, 8.0])
    slower = Contender("read x1 bitwise_or", None, seconds=[3.5])
    assert best_rate([slower, slow, fast], 10) == Rate(2, "add", 5.0)
    ours = Contender("subgroup", None, seconds=[4.0, 5.0])
    case = Case(Spec("10xf32"), 40, [ours], [slower, slow, fast])
    for memory, fraction in ((5.0, 0.5), (40.0, 0.25)):
        rate = Rate(1, "add", memory)
        found = Benchmark((case,), 2, "cpu", Bandwidth(1, None, (rate,), (rate,)))
        row, *readers = rows(found)
        assert row.fraction == fraction and row.ratio is None
        assert [(reader.contender, reader.min_s) for reader in readers] == [("read x1", 3.0), ("read x2", 2.0)]
    assert rows(Benchmark((Case(Spec("10xf32"), 40, [ours]),), 2, "hip", None))[0].fraction is None


def test_an_array_too_small_for_the_cache_is_said_to_be():
    rate, case = Rate(1, "add", 1.0), Case(Spec("10xf32"), 40, [])
    texts = [table(Benchmark((case,), 1, "cpu", Bandwidth(size, 100 << 20, (rate,), (rate,)))) for size in (150 << 20, 300 << 20)]
    assert ["too small" in text for text in texts] == [True, False]
