"""Vulkan beyond the matrix: other subgroup sizes, many calls, many threads."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from iree_reduce_plugin import compile, reference
from iree_reduce_plugin.compare import same_bits
from iree_reduce_plugin.devices import list_devices
from iree_reduce_plugin.targets import find_target

(VULKAN,) = (found for found in list_devices() if found.name == "vulkan")
pytestmark = pytest.mark.skipif(VULKAN.device is None, reason=f"device vulkan: {VULKAN.reason}")
WIDTHS = {"128": "vulkan4", "256": "vulkan8", "512": "vulkan16"}  # bits of a vector of llvmpipe -> target: 32-bit lanes


@pytest.mark.skipif(VULKAN.device is not None and "llvmpipe" not in VULKAN.device.detail, reason="the Vulkan device is not llvmpipe")
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("options", ["37x1000xf32", "5x4097xf64 --op max", "3000xf16 --initial 3", "100x77xi32 --op prod"])
def test_every_subgroup_size(width, options):
    """The width is read once a process."""
    command = [sys.executable, "-m", "iree_reduce_plugin", "run", "--device", "vulkan", "--shape", *options.split()]
    environment = os.environ | {"LP_NATIVE_VECTOR_WIDTH": width}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr + done.stdout
    assert f"vulkan ({WIDTHS[width]}, " in done.stdout and "equal to the reference bit for bit" in done.stdout


CALLS = """
import resource, sys
import numpy as np
from iree_reduce_plugin import compile
plan = compile((64, 5000), target=sys.argv[1])
x = np.random.default_rng(1).standard_normal((64, 5000)).astype("f4")  # 1.3 MB, so that one kept a call would show
first = plan(x)
peaks = []
for _ in range(4):
    assert all((plan(x) == first).all() for _ in range(50))
    peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
print(*peaks)
"""


@pytest.mark.parametrize("target", [VULKAN.device.target if VULKAN.device else "vulkan8", "cpu"])
def test_two_hundred_calls_give_one_result_and_take_no_memory(target):
    pytest.importorskip("resource", reason="this system does not tell a process's memory")
    done = subprocess.run([sys.executable, "-c", CALLS, target], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    first, *_, last = map(int, done.stdout.split())
    assert last - first < 16 * 1024, f"{done.stdout}: 150 calls took {last - first} KiB"


@pytest.mark.parametrize("target", [VULKAN.device.target if VULKAN.device else "vulkan8", "cpu"])
def test_eight_threads_at_once(target):
    size = find_target(target).subgroup_sizes[0] if target != "cpu" else 16
    tuning = {"lane_basis": [[2, size // 2], [0, 1]], "subgroup_basis": [[1, 4], [0, 1]], "thread": [1, 4]}
    plan = compile((37, 1000), tuning=tuning, target=target)
    arrays = np.random.default_rng(1).standard_normal((8, 37, 1000)).astype("f4")
    found = {}

    def call(number):
        found[number] = [plan(arrays[number]) for _ in range(25)]

    threads = [threading.Thread(target=call, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, results in found.items():
        expected = reference(arrays[number], tuning)
        assert len(results) == 25 and all(same_bits(result, expected) for result in results)


@pytest.mark.parametrize("op", ["sum", "prod", "l1"])
@pytest.mark.parametrize("subgroups", [1, 3])
def test_initial_joins_last(op, subgroups):
    """llvmpipe would move the constant to another place of the chain, and results would differ in their last bit."""
    size = find_target(VULKAN.device.target).subgroup_sizes[0]
    tuning = {"lane_basis": [[size], [0]], "subgroup_basis": [[subgroups], [0]], "thread": [1]}
    plan = compile((400,), op=op, initial=3.3, tuning=tuning, target=VULKAN.device.target)
    for x in 1 + np.random.default_rng(0).standard_normal((20, 400)).astype("f4") / 20:
        assert same_bits(plan(x), reference(x, tuning, op=op, initial=3.3))


@pytest.mark.parametrize("subgroups", [6, 8, 9, 16])
def test_many_subgroups_fold_in_ascending_order(subgroups):
    """Their partials are read in vectors of at most four, and folded one by one all the same."""
    size = find_target(VULKAN.device.target).subgroup_sizes[0]
    tuning = {"lane_basis": [[size], [0]], "subgroup_basis": [[subgroups], [0]], "thread": [1]}
    plan = compile((4000,), tuning=tuning, target=VULKAN.device.target)
    for x in np.random.default_rng(0).standard_normal((20, 4000)).astype("f4"):
        assert same_bits(plan(x), reference(x, tuning))


@pytest.mark.skipif(VULKAN.device is not None and VULKAN.device.target != "vulkan8", reason="the subgroups here are not of 8 lanes")
@pytest.mark.parametrize(
    ("shape", "tuning"),
    [
        ((7, 2), {"lane_basis": [[8, 1], [0, 1]], "subgroup_basis": [[2, 1], [0, 1]], "thread": [3, 1]}),
        ((1025, 64), {"lane_basis": [[8, 1], [0, 1]], "subgroup_basis": [[2, 3], [0, 1]], "thread": [5, 2]}),
    ],
    ids=["one column a step, several rows a lane", "several rows a thread to merge, and a tile that overlaps"],
)
def test_rows_side_by_side(shape, tuning):
    x = np.random.default_rng(0).standard_normal(shape).astype("f4")
    assert same_bits(compile(shape, tuning=tuning, target="vulkan8")(x), reference(x, tuning))
