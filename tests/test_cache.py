"""The compile cache: what an entry's name depends on, damage, size, and directories that can't be written."""

from __future__ import annotations

import dataclasses
import os
import warnings
from pathlib import Path

import pytest

from iree_reduce_plugin import cache, toolchain
from iree_reduce_plugin.cache import Artifact
from iree_reduce_plugin.job import Job
from iree_reduce_plugin.problem import Problem
from iree_reduce_plugin.targets import find_target

ARTIFACT = Artifact(b"module" * 100, ({"kernel": "k", "workgroup_count": [1, 1, 1]},))


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    monkeypatch.setenv("IREE_REDUCE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("IREE_REDUCE_CACHE_MAX_MB", raising=False)
    forget()
    yield
    forget()


def forget():
    cache._memory.clear()
    cache._warn_once.cache_clear()
    cache._platform_directory.cache_clear()


def job(target="gfx942", **changes):
    return Job(Problem.of((4, 4096), **changes), None, find_target(target), "default")


def entry(tmp_path, key):
    return tmp_path / "cache" / "kernels" / (key + ".kernel")


def test_an_entry_comes_back_from_memory_and_from_disk():
    key = cache.key(job())
    assert cache.load(key) is None
    cache.store(key, ARTIFACT)
    assert cache.load(key) is ARTIFACT
    forget()
    assert cache.load(key) == ARTIFACT


def test_the_key_tells_jobs_apart():
    jobs = [job("cpu"), job("gfx950"), job(op="max"), job(dtype="f16"), job(initial=0.0), job(initial=-0.0), job(initial=1.0)]
    jobs.append(dataclasses.replace(jobs[0], strategy="subgroup"))
    assert len({cache.key(j) for j in jobs}) == len(jobs)
    assert cache.key(job()) == cache.key(job())


@pytest.mark.parametrize("name", ["source_digest", "compiler_version", "host_cpu"])
def test_the_key_depends_on_sources_compiler_and_processor(monkeypatch, name):
    before = cache.key(job("cpu"))
    monkeypatch.setattr(cache, name, lambda: b"other" if name == "source_digest" else "other")
    assert cache.key(job("cpu")) != before


@pytest.mark.parametrize("damage", [lambda d: d[:-1], lambda d: b"", lambda d: d[:100] + b"?" + d[101:], lambda d: b"x" + d])
def test_a_damaged_entry_is_a_miss_and_is_replaced(tmp_path, damage):
    cache.store("a", ARTIFACT)
    path = entry(tmp_path, "a")
    path.write_bytes(damage(path.read_bytes()))
    forget()
    assert cache.load("a") is None
    cache.store("a", ARTIFACT)
    forget()
    assert cache.load("a") == ARTIFACT


def test_the_longest_unused_entries_go_first(tmp_path, monkeypatch):
    size = len(ARTIFACT.to_bytes())
    monkeypatch.setenv("IREE_REDUCE_CACHE_MAX_MB", str(2.5 * size / 1e6))
    for age, key in enumerate("abc"):
        cache.store(key, ARTIFACT)
        if entry(tmp_path, key).exists():
            os.utime(entry(tmp_path, key), (1000 + age, 1000 + age))
        if key == "b":
            forget()
            cache.load("a")  # used again: now the newest
    assert [key for key in "abc" if entry(tmp_path, key).exists()] == ["a", "c"]


def test_nothing_but_entries_is_left_in_the_directory(tmp_path):
    cache.store("a", ARTIFACT)
    assert [p.name for p in (tmp_path / "cache" / "kernels").iterdir()] == ["a.kernel"]


def test_a_directory_that_cannot_be_made_warns_once(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("IREE_REDUCE_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.warns(RuntimeWarning, match="kept in memory only"):
        cache.store("a", ARTIFACT)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.store("b", ARTIFACT)
    assert cache.load("a") is ARTIFACT


def test_a_missing_home_makes_no_directory_named_tilde(tmp_path, monkeypatch):
    monkeypatch.delenv("IREE_REDUCE_CACHE_DIR")
    monkeypatch.chdir(tmp_path)
    import platformdirs

    monkeypatch.setattr(platformdirs, "user_cache_path", lambda name: Path("~/.cache") / name)
    with pytest.warns(RuntimeWarning, match="no home directory"):
        cache.store("a", ARTIFACT)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", ["", "off"])
def test_the_disk_part_can_be_switched_off(tmp_path, monkeypatch, value):
    monkeypatch.setenv("IREE_REDUCE_CACHE_DIR", value)
    monkeypatch.chdir(tmp_path)
    cache.store("a", ARTIFACT)
    assert cache.load("a") is ARTIFACT and list(tmp_path.iterdir()) == []


def test_logs_are_bounded(tmp_path):
    for i in range(cache._LOGS + 5):
        path = cache.save_log(f"log {i}")
    assert path.read_text() == f"log {cache._LOGS + 4}"
    assert len(list(path.parent.iterdir())) == cache._LOGS


def test_another_iree_is_warned_of(monkeypatch):
    monkeypatch.setattr(toolchain, "_version_file", lambda part: 'VERSION = "3.14.0"\n')
    toolchain.compiler_version.cache_clear()
    with pytest.warns(RuntimeWarning, match=r"3\.14\.0 is untested"):
        toolchain.compiler_version()
    toolchain.compiler_version.cache_clear()
