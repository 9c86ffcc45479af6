"""The GPU to check, and what there is to say about it and about the software around it."""

from __future__ import annotations

import platform
import re
import subprocess
from pathlib import Path
from typing import Any

import iree.runtime as rt
import matrix_run
import numpy as np

from iree_reduce_plugin import __version__
from iree_reduce_plugin.devices import Device, list_devices
from iree_reduce_plugin.errors import DeviceError
from iree_reduce_plugin.toolchain import iree_version

GPUS = ("hip", "cuda", "vulkan")
_VERSION_FILES = {  # what a driver leaves on Linux; absent elsewhere
    "hip": (("ROCm", "/opt/rocm/.info/version"), ("amdgpu module", "/sys/module/amdgpu/version")),
    "cuda": (("kernel module", "/proc/driver/nvidia/version"),),
}
_TOLD = re.compile(r"(name|driver|driver_info|api|type|.*(arch|capability|warp|wave|compute-unit|global-memory|l2-cache|clock).*): ")


def choose(name: str | None) -> Device:
    """The device of that name; None: the first usable GPU, which software is not. Raises DeviceError, with every reason."""
    reasons = []
    for found in list_devices():
        if found.name not in (GPUS if name is None else (name,)):
            continue
        if found.device is None:
            reasons.append(f"{found.name}: {found.reason}")
        elif name is None and is_software(found.device):
            reasons.append(f"{found.name}: only software ({found.device.detail})")
        else:
            return found.device
    remedy = "install the GPU's driver (ROCm's for AMD, CUDA's, or a Vulkan one)"
    if name is None:
        remedy += ", or name software: --device vulkan"
    what = "no GPU is usable here" if name is None else f"device {name} is not usable here"
    raise DeviceError(f"{what}: {'; '.join(reasons)}; {remedy}")


def is_software(device: Device) -> bool:
    return device.name == "vulkan" and "type: cpu" in _driver_text(device)


def describe(device: Device) -> list[tuple[str, str]]:
    """Lines for the report: a name and a value."""
    kind = " (SOFTWARE, not a GPU)" if is_software(device) else ""
    size, _ = matrix_run.limits(device.target)
    return [
        ("device", f"{device.name}: {device.detail}{kind}"),
        ("target", f"{device.target}, subgroup size of the cells {size}"),
        ("driver", "; ".join([*_driver_lines(device), *_installed(device.name)])),
        ("IREE", f"compiler {iree_version('compiler')}, runtime {iree_version('runtime')}"),
        ("package", f"iree_reduce_plugin {__version__}{_commit()}"),
        ("Python", f"{platform.python_version()}, NumPy {np.__version__}"),
        ("system", platform.platform()),
    ]


def _driver_text(device: Device) -> str:
    driver: Any = rt.get_driver(device.drivers[1])
    number = device.device_id if device.device_id is not None else driver.query_available_devices()[0]["device_id"]
    return str(driver.dump_device_info(number))


def _driver_lines(device: Device) -> list[str]:
    """What tells one device from another; not the list of every extension."""
    lines = (" ".join(line.strip(" -").split()) for line in _driver_text(device).splitlines())
    return [line for line in lines if len(line) < 120 and _TOLD.match(line)]


def _installed(name: str) -> list[str]:
    found = []
    for what, path in _VERSION_FILES.get(name, ()):
        try:
            found.append(f"{what} {Path(path).read_text().splitlines()[0].strip()}")
        except (OSError, IndexError):
            found.append(f"{what} not known")
    return found


def _commit() -> str:
    """The checkout's commit, and whether it was changed; nothing where git can't tell."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return f", commit {done.stdout.strip()}" if done.returncode == 0 else ""
