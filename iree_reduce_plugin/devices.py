"""The devices: which are usable here, why the others are not, and one IREE device and VM instance for each in use.

`cpu` is two of IREE's drivers: `local-task`, whose threads are pinned to the cores this process may use, and `local-sync`,
which runs in the caller's thread and is faster for small arrays. A kernel compiled once runs on both.
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import iree.runtime as rt

from .errors import DeviceError, InputError
from .targets import CPU_STACK_BYTES, TARGETS

# Inputs of fewer bytes run in the caller's thread: waking the workers takes longer than they save.
SMALL_BYTES = 256 * 1024

ENVIRONMENT = "IREE_REDUCE_DEVICE"

_lock = threading.RLock()
_forked = False  # in a child forked after `local-task` was opened, which has the driver but not its threads


@dataclass(frozen=True)
class Device:
    """A usable device. target: the name of the target to compile for. drivers: IREE's, for small inputs and for large ones."""

    name: str
    target: str
    drivers: tuple[str, str]
    detail: str
    device_id: int | None = None  # the driver's number for it; None: the driver's default

    @property
    def is_local(self) -> bool:
        """Whether it reads the host's memory as it lies."""
        return self.target == "cpu"

    def driver_for(self, nbytes: int) -> str:
        """The driver that runs an input of that many bytes."""
        small, large = self.drivers
        return small if nbytes < SMALL_BYTES or (_forked and self.is_local) else large


@dataclass(frozen=True)
class Availability:
    """One line of `list_devices`: `device` where it is usable, else the reason."""

    name: str
    device: Device | None
    reason: str | None


def list_devices() -> tuple[Availability, ...]:
    """Every device this package knows, in order of preference for the default.

    >>> [a.name for a in list_devices()]
    ['hip', 'cuda', 'vulkan', 'cpu', 'local-task', 'local-sync']
    """
    return tuple(_probe(name) for name in _PROBES)


def find_device(name: str | None = None) -> Device:
    """The device of that name; None: `$IREE_REDUCE_DEVICE`, else hip, else cuda where it is usable, else cpu.

    Raises InputError for a name that is not known, DeviceError, with the reason, for a device that is not usable.
    """
    if name is None:
        name = os.environ.get(ENVIRONMENT) or None
    if name is None:
        return _default()
    if not isinstance(name, str) or name not in _PROBES:
        raise InputError(f"device {name!r} is not known: use one of {', '.join(_PROBES)}")
    found = _probe(name)
    if found.device is None:
        raise DeviceError(f"device {name!r} is not usable here: {found.reason}")
    return found.device


@functools.cache
def _default() -> Device:
    return _probe("hip").device or _probe("cuda").device or find_device("cpu")


@functools.cache
def _probe(name: str) -> Availability:
    with _lock:
        try:
            return Availability(name, _PROBES[name](), None)
        except (ValueError, RuntimeError) as e:
            return Availability(name, None, _reason(str(e)))


def _reason(message: str) -> str:
    """IREE's message without the places in its own sources."""
    line = message.splitlines()[0] if message else "no reason was given"
    return re.sub(r"^Error creating driver: |\S+\.c(?:c|pp)?:\d+: ", "", line).strip().rstrip(":")


def _cpu(name: str, small: str, large: str) -> Device:
    cores = len(_cores())
    threads = "the caller's thread" if large == "local-sync" else f"{cores} thread{'s' if cores > 1 else ''}"
    return Device(name, "cpu", (small, large), f"{large} in {threads}" + (f", {small} for small arrays" if small != large else ""))


def _vulkan() -> Device:
    """The first GPU; a software implementation where there is none."""
    driver = rt.get_driver("vulkan")
    found = [(d, str(driver.dump_device_info(d["device_id"]))) for d in driver.query_available_devices()]
    if not found:
        raise RuntimeError("the Vulkan loader is here, but no driver shows a device")
    found.sort(key=lambda pair: "type: cpu" in pair[1])
    device, info = found[0]
    size = re.search(r"subgroup: size=(\d+)", info)
    target = f"vulkan{size.group(1)}" if size else ""
    if target not in TARGETS:
        raise RuntimeError(
            f"the device {device['name']} has subgroups of {size.group(1) if size else 'unknown'} lanes: none of the targets"
        )
    return Device("vulkan", target, ("vulkan", "vulkan"), str(device["name"]), device["device_id"])


def _hip() -> Device:
    return _first("hip", r"\b(gfx[0-9a-f]+)", lambda found: str(found.group(1)))


def _cuda() -> Device:
    return _first("cuda", r"compute-capability: (\d+)\.(\d+)", lambda found: f"sm_{found.group(1)}{found.group(2)}")


def _first(name: str, pattern: str, target_of: Callable[[re.Match[str]], str]) -> Device:
    """The driver's first device; its target is read from what the driver says of it."""
    driver = rt.get_driver(name)
    found = driver.query_available_devices()
    if not found:
        raise RuntimeError(f"the {name.upper()} runtime is here, but it shows no device")
    architecture = re.search(pattern, str(driver.dump_device_info(found[0]["device_id"])))
    if architecture is None:
        raise RuntimeError(f"the {name.upper()} device {found[0]['name']} does not name its architecture")
    target = target_of(architecture)
    if target not in TARGETS:
        raise RuntimeError(f"its architecture, {target}, is none of the targets {', '.join(TARGETS)}")
    return Device(name, target, (name, name), str(found[0]["name"]))


_PROBES: dict[str, Callable[[], Device]] = {
    "hip": _hip,
    "cuda": _cuda,
    "vulkan": _vulkan,
    "cpu": lambda: _cpu("cpu", "local-sync", "local-task"),
    "local-task": lambda: _cpu("local-task", "local-task", "local-task"),
    "local-sync": lambda: _cpu("local-sync", "local-sync", "local-sync"),
}


def _cores() -> list[int]:
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
    with _lock:
        if driver not in _opened:
            try:
                if driver == "local-task":
                    _pin_threads()
                made = rt.get_driver(driver)
                device = made.create_default_device() if device_id is None else made.create_device(device_id)
                _opened[driver] = OpenDevice(device, device.allocator, rt.create_hal_module(instance(), device))
            except (ValueError, RuntimeError) as e:
                raise DeviceError(f"driver {driver!r} can't be used: {_reason(str(e))}") from e
        return _opened[driver]


_opened: dict[str, OpenDevice] = {}


def _pin_threads() -> None:
    """One thread a core, as the system sometimes puts two on one, with a stack that holds a kernel's.

    The flags are the process's; they are read when the driver is made, and left alone where the user has set them.
    """
    given = os.environ.get("IREE_PY_RUNTIME_FLAGS", "")
    for name, value in (("task_topology_cpu_ids", ",".join(map(str, _cores()))), ("task_worker_stack_size", str(4 * CPU_STACK_BYTES))):
        if name.removesuffix("_cpu_ids") not in given:
            rt.flags.parse_flags(f"--{name}={value}")


def _after_fork() -> None:
    """In the child: the threads of `local-task` stayed in the parent, and destroying its objects would wait for them for ever."""
    global _forked, _lock
    _lock = threading.RLock()
    if "local-task" in _opened and not _forked:
        _forked = True
        rt._binding.disable_leak_checker()
        for kept in (_opened["local-task"].device, rt.get_driver("local-task")):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
