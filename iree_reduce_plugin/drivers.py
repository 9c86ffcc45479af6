"""IREE's drivers in use: the process's one VM instance, one open device for each driver, and what a fork does to them."""

from __future__ import annotations

import ctypes
import functools
import os
import re
import threading
from dataclasses import dataclass
from typing import Any

import iree.runtime as rt

from .errors import DeviceError
from .targets import CPU_STACK_BYTES

lock = threading.RLock()  # of whatever asks the drivers; read it through the module: a fork makes it anew
_forked = False


def threads_are_lost() -> bool:
    """Whether this is a child forked after `local-task` was opened: it has the driver, but not its threads."""
    return _forked


def reason(message: str) -> str:
    """IREE's message without the places in its own sources."""
    line = message.splitlines()[0] if message else "no reason was given"
    return re.sub(r"^Error (?:creating driver|querying devices): |\S+\.c(?:c|pp)?:\d+: ", "", line).strip().rstrip(":")


def cores() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


@functools.cache
def instance() -> Any:
    """The process's IREE VM instance."""
    return rt.VmInstance()


@dataclass(frozen=True)
class OpenDevice:
    """An IREE device in use, with what every module on it needs."""

    device: Any
    allocator: Any
    hal_module: Any


def open_driver(driver: str, device_id: int | None = None) -> OpenDevice:
    """The one OpenDevice of a driver in this process: that device, or its default. Raises DeviceError where IREE can't make it."""
    with lock:
        if driver in _left_behind:
            raise DeviceError(
                f"driver {driver!r} was opened before this process was forked, and does not work in the child: "
                "use it first in the child, or start the child anew, e.g. multiprocessing.get_context('spawn')"
            )
        if driver not in _opened:
            try:
                if driver == "local-task":
                    _pin_threads()
                made = rt.get_driver(driver)
                device = made.create_default_device() if device_id is None else made.create_device(device_id)
                _opened[driver] = OpenDevice(device, device.allocator, rt.create_hal_module(instance(), device))
            except (ValueError, RuntimeError) as e:
                raise DeviceError(f"driver {driver!r} can't be used: {reason(str(e))}") from e
        return _opened[driver]


_opened: dict[str, OpenDevice] = {}
_left_behind: set[str] = set()  # in a forked child: drivers of GPUs, which the parent had opened


def _pin_threads() -> None:
    """One thread a core, as the system sometimes puts two on one, with a stack that holds a kernel's.

    The flags are the process's; they are read when the driver is made, and left alone where the user has set them.
    """
    given = os.environ.get("IREE_PY_RUNTIME_FLAGS", "")
    for name, value in (("task_topology_cpu_ids", ",".join(map(str, cores()))), ("task_worker_stack_size", str(4 * CPU_STACK_BYTES))):
        if name.removesuffix("_cpu_ids") not in given:
            rt.flags.parse_flags(f"--{name}={value}")


def _after_fork() -> None:
    """In the child: the threads of the local drivers stayed in the parent, and destroying their objects would wait for them for ever.

    `local-sync` has one of its own, too, which its calls can do without; those of `local-task` can't.
    """
    global _forked, lock
    lock = threading.RLock()
    _left_behind.update(name for name in _opened if not name.startswith("local"))
    _forked = _forked or "local-task" in _opened
    for name in [name for name in _opened if name.startswith("local")]:
        rt._binding.disable_leak_checker()
        for kept in (_opened[name].device, rt.get_driver(name)):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
