"""Which devices are found, what is said of the others, and which one is the default."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from iree_reduce_plugin import devices, drivers
from iree_reduce_plugin.errors import DeviceError, InputError

# As IREE's driver prints them; a real GPU's are those of a card that may run subgroups of 32 or 64 lanes.
SOFTWARE = "name: llvmpipe (LLVM 15.0.6, 256 bits)\ntype: cpu\nsubgroup: size=8 operations=0x000000bf minSubgroupSize=8 maxSubgroupSize=8\n"
CARD = "name: AMD Radeon (RADV)\ntype: discrete-gpu\nsubgroup: size=64 operations=0x000000ff minSubgroupSize=32 maxSubgroupSize=64\n"


class Driver:
    """Stands in for IREE's: devices as (name, what is said of them)."""

    def __init__(self, *found):
        self.infos = {number: info for number, (_, info) in enumerate(found, 1)}
        self.found = [{"device_id": number, "name": name, "path": ""} for number, (name, _) in enumerate(found, 1)]

    def query_available_devices(self):
        return self.found

    def dump_device_info(self, number):
        return self.infos[number]


@pytest.fixture
def machine(monkeypatch):
    """Makes this machine one with these drivers, `name=Driver(...)` or an exception's text, and with or without a GPU's node."""

    def make(has_gpu=True, **found):
        def get_driver(name):
            answer = found.get(name, "not here")
            if isinstance(answer, str):
                raise ValueError(answer)
            return answer

        monkeypatch.setattr(devices.rt, "get_driver", get_driver)
        monkeypatch.setattr(devices, "_has_gpu", lambda: has_gpu)
        devices._probe.cache_clear()
        devices._default.cache_clear()

    yield make
    monkeypatch.undo()
    devices._probe.cache_clear()
    devices._default.cache_clear()


HIP, CUDA = ("AMD Instinct MI300X", "gcnArchName: gfx942:sramecc+:xnack-"), ("NVIDIA H200", "compute-capability: 9.0\n")


@pytest.mark.parametrize(
    ("found", "target"),
    [
        ({}, "cpu"),
        ({"vulkan": Driver(("llvmpipe", SOFTWARE))}, "cpu"),
        ({"vulkan": Driver(("llvmpipe", SOFTWARE), ("Radeon", CARD))}, "vulkan64"),
        ({"vulkan": Driver(("Radeon", CARD)), "cuda": Driver(CUDA)}, "sm_90"),
        ({"vulkan": Driver(("Radeon", CARD)), "cuda": Driver(CUDA), "hip": Driver(HIP)}, "gfx942"),
    ],
    ids=["nothing", "software Vulkan", "a Vulkan GPU beside software", "CUDA before Vulkan", "HIP before CUDA"],
)
def test_the_default_is_the_best_gpu_and_never_software(machine, found, target):
    machine(**found)
    assert devices.find_device().target == target


def test_the_card_is_taken_and_not_the_software_beside_it(machine):
    machine(vulkan=Driver(("llvmpipe", SOFTWARE), ("Radeon", CARD)))
    device = devices.find_device("vulkan")
    assert (device.device_id, device.is_software, device.detail) == (2, False, "Radeon")


def test_software_is_taken_where_it_is_named(machine, monkeypatch):
    machine(vulkan=Driver(("llvmpipe", SOFTWARE)))
    assert devices.find_device("vulkan").is_software
    monkeypatch.setenv("IREE_REDUCE_DEVICE", "vulkan")
    assert devices.find_device().target == "vulkan8"


def test_without_a_gpu_vulkan_is_not_even_asked(machine, monkeypatch):
    machine(has_gpu=False, vulkan=Driver(("Radeon", CARD)))
    assert devices.find_device().name == "cpu"
    assert devices.find_device("vulkan").target == "vulkan64"  # named, it is


@pytest.mark.parametrize(
    ("name", "said", "words"),
    [
        ("hip", "HIP runtime library 'libamdhip64.so' not available", "install ROCm's"),
        ("cuda", "CUDA driver library 'libcuda.so' not available", "install NVIDIA's"),
        ("vulkan", "a.cc:7: NOT_FOUND; Vulkan loader library not found", "no Vulkan loader"),
        ("vulkan", "Error querying devices: b.c:1: UNAVAILABLE; [vkCreateInstance] VK_ERROR_INCOMPATIBLE_DRIVER", "but it finds no driver"),
        ("vulkan", "c.c:9: INTERNAL; something else\nmore", "is not usable here: INTERNAL; something else"),
    ],
)
def test_an_absent_device_says_what_to_install(machine, name, said, words):
    machine(**{name: said})
    with pytest.raises(DeviceError, match=words) as refusal:
        devices.find_device(name)
    assert "\n" not in str(refusal.value) and ".c" not in str(refusal.value)


@pytest.mark.parametrize(
    ("driver", "words"),
    [
        ({"vulkan": Driver()}, "a Vulkan loader is here, but it finds no driver"),
        ({"vulkan": Driver(("odd", "type: discrete-gpu\nsubgroup: size=128 x"))}, "odd has subgroups of 128 lanes: none of the targets"),
        ({"hip": Driver()}, "the HIP runtime is here, but it shows no device"),
        ({"hip": Driver(("old", "gcnArchName: gfx803"))}, "its architecture, gfx803, is none of the targets"),
        ({"cuda": Driver(("odd", "nothing"))}, "the CUDA device odd does not name its architecture"),
    ],
)
def test_a_device_that_can_not_be_used_says_why(machine, driver, words):
    machine(**driver)
    (name,) = driver
    with pytest.raises(DeviceError, match=words):
        devices.find_device(name)


def test_a_name_that_is_not_known_or_not_usable(machine):
    machine()
    with pytest.raises(InputError, match=r"'gpu' is not known: use one of hip, cuda, vulkan, cpu"):
        devices.find_device("gpu")
    with pytest.raises(DeviceError, match="'hip' is not usable here: not here"):
        devices.find_device("hip")


def test_the_environment_names_the_default_device(monkeypatch):
    monkeypatch.setenv("IREE_REDUCE_DEVICE", "local-sync")
    assert devices.find_device().name == "local-sync"
    assert devices.find_device("cpu").name == "cpu"


def test_every_device_is_usable_or_says_why():
    for found in devices.list_devices():
        assert (found.device is None) != (found.reason is None)


def test_the_command_on_a_machine_with_a_loader_and_no_driver():
    nowhere = {"VK_DRIVER_FILES": "/nonexistent", "VK_ICD_FILENAMES": "/nonexistent", "IREE_REDUCE_DEVICE": ""}
    command = [sys.executable, "-m", "iree_reduce_plugin", "devices"]
    done = subprocess.run(command, env=os.environ | nowhere, capture_output=True, text=True)
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("vulkan"))
    assert done.returncode == 0 and "not usable: " in line and "Vulkan" in line
    assert "Where no device is named: " in done.stdout


def test_the_command_lists_the_devices_although_the_environment_names_a_wrong_one():
    command = [sys.executable, "-m", "iree_reduce_plugin", "devices"]
    done = subprocess.run(command, env=os.environ | {"IREE_REDUCE_DEVICE": "gpu"}, capture_output=True, text=True)
    assert done.returncode == 0 and "local-sync" in done.stdout and "'gpu' is not known" in done.stdout


def test_cores_are_those_of_this_process():
    found = getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count()))(0)
    assert drivers.cores() == sorted(found)
