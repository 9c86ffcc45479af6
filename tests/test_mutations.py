"""The tests bite: a schedule with one thing broken gives other bits on a device where lanes, subgroups and barriers are real."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from iree_reduce_plugin.compare import same_bits
from iree_reduce_plugin.devices import list_devices
from iree_reduce_plugin.plan import make_job
from iree_reduce_plugin.problem import Problem
from iree_reduce_plugin.reference import tree
from iree_reduce_plugin.run import Executable
from iree_reduce_plugin.targets import find_target

(VULKAN,) = (found for found in list_devices() if found.name == "vulkan")
pytestmark = pytest.mark.skipif(VULKAN.device is None, reason=f"device vulkan: {VULKAN.reason}")
MUTATIONS = ("barrier_removed", "lane_order_swapped", "tail_not_masked", "only_one_subgroup_writes", "wrong_identity")
ROWS, COLUMNS = 37, 1000


def tuning():
    """Four subgroups along K; two rows of lanes, if there are lanes enough."""
    size = find_target(VULKAN.device.target).subgroup_sizes[0]
    return {"lane_basis": [[2, size // 2], [0, 1]], "subgroup_basis": [[1, 4], [0, 1]], "thread": [1, 4]}


def right(mutation):
    problem = Problem.of((ROWS, COLUMNS))
    job, _ = make_job(problem, tuning(), find_target(VULKAN.device.target))
    command = [sys.executable, str(Path(__file__).with_name("mutant.py")), mutation]
    done = subprocess.run(command, input=pickle.dumps(job), capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    x = np.random.default_rng(0).standard_normal((ROWS, COLUMNS)).astype("f4")
    run = Executable(done.stdout, VULKAN.device, (ROWS, COLUMNS), problem.inputs, (ROWS,), problem.results)
    expected = tree(x, problem, job.layout)
    return all(same_bits(run(x)[0], expected) for _ in range(3))


def test_the_schedule_as_it_is():
    assert right("nothing")


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_broken_schedule_is_caught(mutation):
    assert not right(mutation)
