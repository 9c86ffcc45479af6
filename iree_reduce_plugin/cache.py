"""Compiled kernels, kept in memory and on disk. Nothing here imports the compiler, and a damaged entry is only a miss.

IREE_REDUCE_CACHE_DIR      the directory, instead of the platform's; empty or "off": memory only
IREE_REDUCE_CACHE_MAX_MB   size limit of the directory, 256 by default; the longest unused entries go first
"""

from __future__ import annotations

import collections
import contextlib
import functools
import hashlib
import json
import os
import tempfile
import threading
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .job import Job
from .toolchain import compile_flags, compiler_version, host_cpu, source_digest

_MAGIC = b"iree_reduce_plugin cache 1\n"
_SUFFIX = ".kernel"
_MEMORY_ENTRIES = 256
_LOGS = 20  # kept


@dataclass(frozen=True)
class Artifact:
    """A compiled job: IREE's module, and the entries of the report's `dispatches`."""

    vmfb: bytes
    dispatches: tuple[dict[str, Any], ...]

    def to_bytes(self) -> bytes:
        """With a checksum in front."""
        report = json.dumps(self.dispatches).encode()
        payload = len(report).to_bytes(8, "little") + report + self.vmfb
        return _MAGIC + hashlib.sha256(payload).digest() + payload

    @staticmethod
    def from_bytes(data: bytes) -> Artifact | None:
        """None where the bytes are damaged or of another version."""
        start = len(_MAGIC) + 32
        payload = data[start:]
        if not data.startswith(_MAGIC) or hashlib.sha256(payload).digest() != data[len(_MAGIC) : start]:
            return None
        size = int.from_bytes(payload[:8], "little")
        try:
            dispatches = tuple(json.loads(payload[8 : 8 + size]))
        except (ValueError, TypeError):
            return None
        vmfb = payload[8 + size :]
        return Artifact(vmfb, dispatches) if vmfb and dispatches else None


_memory: collections.OrderedDict[str, Artifact] = collections.OrderedDict()
_lock = threading.Lock()


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def key(job: Job) -> str:
    """The entry's name: everything that the compiled bytes depend on.

    By the job's `repr`, not its hash: 0.0 and -0.0 are equal, but not the same `initial`.
    """
    parts = [repr(job), *compile_flags(job.target), compiler_version()]
    if not job.target.is_gpu:
        parts.append(host_cpu())
    return hashlib.sha256(source_digest() + "\0".join(parts).encode()).hexdigest()


def load(key: str) -> Artifact | None:
    with _lock:
        if key in _memory:
            _memory.move_to_end(key)
            return _memory[key]
    path = _path(key)
    if path is None:
        return None
    try:
        if not path.is_file():  # a pipe in its place would be waited for
            return None
        data = path.read_bytes()
    except OSError:
        return None
    artifact = Artifact.from_bytes(data)
    if artifact is None:
        return None  # the next store replaces it
    with contextlib.suppress(OSError):
        os.utime(path)  # marks it as used
    _remember(key, artifact)
    return artifact


def store(key: str, artifact: Artifact) -> None:
    """Keeps the artifact. A disk that can't be written is warned of once and otherwise ignored."""
    _remember(key, artifact)
    path = _path(key)
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_atomically(path, artifact.to_bytes())
        _shrink(path.parent)
    except OSError as e:
        _warn_once(str(path.parent), f"{e.strerror or e}; {_IN_MEMORY}")


def save_log(text: str) -> Path | None:
    """Writes a failed compilation's log beside the cache, or in the temporary directory; None where neither can be written."""
    root = directory()
    with contextlib.suppress(OSError):
        if root is not None:
            logs = root / "logs"
            logs.mkdir(parents=True, exist_ok=True)
            path = _write_log(text, logs)
            _keep_newest(logs, _LOGS)
            return path
    with contextlib.suppress(OSError):
        return _write_log(text, Path(tempfile.gettempdir()))
    return None


def directory() -> Path | None:
    """Where the cache lives; None where its disk part is off or has no place."""
    given = os.environ.get("IREE_REDUCE_CACHE_DIR")
    if given is not None:
        return None if given.strip() in ("", "off") else Path(given).expanduser().absolute()
    return _platform_directory(os.environ.get("HOME"), os.environ.get("XDG_CACHE_HOME"))


@functools.cache
def _platform_directory(*environment: str | None) -> Path | None:
    import platformdirs  # only here: importing it takes 2 ms

    path = platformdirs.user_cache_path("iree_reduce_plugin")
    if not path.is_absolute():  # without a home directory it begins with "~", which would be made right here
        _warn_once(str(path), f"there is no home directory; {_IN_MEMORY}")
        return None
    return path


def _path(key: str) -> Path | None:
    root = directory()
    return None if root is None else root / "kernels" / (key + _SUFFIX)


def _remember(key: str, artifact: Artifact) -> None:
    with _lock:
        _memory[key] = artifact
        _memory.move_to_end(key)
        while len(_memory) > _MEMORY_ENTRIES:
            _memory.popitem(last=False)


def _write_atomically(path: Path, data: bytes) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def _write_log(text: str, folder: Path) -> Path:
    descriptor, name = tempfile.mkstemp(dir=folder, prefix="iree-reduce-", suffix=".log")
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    return Path(name)


def _entries(folder: Path) -> list[tuple[float, int, Path]]:
    """(time of last use, bytes, path) of every file, oldest first."""
    found = []
    for path in folder.iterdir():
        with contextlib.suppress(OSError):  # another process may have removed it
            status = path.stat()
            found.append((status.st_mtime, status.st_size, path))
    return sorted(found)


def _shrink(folder: Path) -> None:
    entries = _entries(folder)
    excess = sum(size for _, size, _ in entries) - _limit()
    for _, size, path in entries[:-1]:  # never the one just written
        if excess <= 0:
            break
        with contextlib.suppress(OSError):
            path.unlink()
            excess -= size


def _limit() -> float:
    given = os.environ.get("IREE_REDUCE_CACHE_MAX_MB", "256")
    try:
        return float(given) * 1e6
    except ValueError:
        _warn_once(f"IREE_REDUCE_CACHE_MAX_MB={given}", "it is not a number; 256 is used")
        return 256e6


def _keep_newest(folder: Path, count: int) -> None:
    for _, _, path in _entries(folder)[:-count]:
        with contextlib.suppress(OSError):
            path.unlink()


_IN_MEMORY = "kernels are kept in memory only"


@functools.cache
def _warn_once(what: str, why: str) -> None:
    warnings.warn(f"compile cache {what}: {why}", RuntimeWarning, stacklevel=3)
