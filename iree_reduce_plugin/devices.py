"""The devices: which are usable here, why the others are not, and which one is taken where none is named.

`cpu` is two of IREE's drivers: `local-task`, whose threads are pinned to the cores this process may use, and `local-sync`,
which runs in the caller's thread and is faster for small arrays. A kernel compiled once runs on both.
"""

from __future__ import annotations

import functools
import glob
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import iree.runtime as rt

from . import drivers
from .errors import DeviceError, InputError
from .targets import TARGETS

# Inputs of fewer bytes run in the caller's thread: waking the workers takes longer than they save.
SMALL_BYTES = 2 << 20

ENVIRONMENT = "IREE_REDUCE_DEVICE"


@dataclass(frozen=True)
class Device:
    """A usable device. target: the name of the target to compile for. drivers: IREE's, for small inputs and for large ones."""

    name: str
    target: str
    drivers: tuple[str, str]
    detail: str
    device_id: int | None = None  # the driver's number for it; None: the driver's default
    is_software: bool = False  # a GPU's interface that the CPU implements

    @property
    def is_local(self) -> bool:
        """Whether it reads the host's memory as it lies."""
        return self.target == "cpu"

    def driver_for(self, nbytes: int) -> str:
        """The driver that runs an input of that many bytes."""
        if self.is_local and drivers.threads_are_lost():
            return "local-sync"
        small, large = self.drivers
        return small if nbytes < SMALL_BYTES else large


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
    """The device of that name; None: `$IREE_REDUCE_DEVICE`, else the first usable of hip, cuda, vulkan (a GPU, not software) and cpu.

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
    for name in ("hip", "cuda", "vulkan"):
        if name == "vulkan" and not _has_gpu():
            continue  # starting a software implementation only to refuse it takes as long as all the rest of a first call
        device = _probe(name).device
        if device is not None and not device.is_software:
            return device
    return find_device("cpu")


def _has_gpu() -> bool:
    """Whether a GPU may be here: on Linux, whether its node is (of a kernel driver, of NVIDIA's, of Windows' subsystem)."""
    return not sys.platform.startswith("linux") or any(map(glob.glob, ("/dev/dri/renderD*", "/dev/nvidia[0-9]*", "/dev/dxg")))


@functools.cache
def _probe(name: str) -> Availability:
    with drivers.lock:
        try:
            return Availability(name, _PROBES[name](), None)
        except (ValueError, RuntimeError) as e:
            said = drivers.reason(str(e))
            return Availability(name, None, next((meant for words, meant in _MEANT.items() if words in said), said))


# What some of the drivers' messages mean, and what to do.
_MEANT = {
    "HIP runtime library": "no HIP runtime (libamdhip64.so) is found: install ROCm's, and let this user open /dev/kfd and /dev/dri",
    "CUDA driver library": "no CUDA driver (libcuda.so) is found: install NVIDIA's",
    "Vulkan loader library": "no Vulkan loader (libvulkan.so.1) is found: install it with a driver (in software: mesa-vulkan-drivers)",
    "VK_ERROR_INCOMPATIBLE_DRIVER": "a Vulkan loader is here, but it finds no driver: install one (in software: mesa-vulkan-drivers), "
    "or unset VK_DRIVER_FILES and VK_ICD_FILENAMES",
}


def _cpu(name: str, small: str, large: str) -> Device:
    cores = len(drivers.cores())
    threads = "the caller's thread" if large == "local-sync" else f"{cores} thread{'s' if cores > 1 else ''}"
    return Device(name, "cpu", (small, large), f"{large} in {threads}" + (f", {small} for small arrays" if small != large else ""))


def _vulkan() -> Device:
    """The first GPU; a software implementation where there is none."""
    driver = rt.get_driver("vulkan")
    found = [(d, str(driver.dump_device_info(d["device_id"]))) for d in driver.query_available_devices()]
    if not found:
        raise RuntimeError("VK_ERROR_INCOMPATIBLE_DRIVER: it shows no device")
    return _vulkan_device(*min(found, key=lambda pair: _is_software(pair[1])))


def _is_software(info: str) -> bool:
    return re.search(r"^type: cpu$", info, re.M) is not None


def _vulkan_device(device: dict[str, Any], info: str) -> Device:
    """From what IREE's driver says of it, one line a property."""
    size = re.search(r"subgroup: size=(\d+)", info)
    target = f"vulkan{size.group(1)}" if size else ""
    if target not in TARGETS:
        raise RuntimeError(
            f"the device {device['name']} has subgroups of {size.group(1) if size else 'unknown'} lanes: none of the targets"
        )
    return Device("vulkan", target, ("vulkan", "vulkan"), str(device["name"]), device["device_id"], _is_software(info))


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
