"""The end-to-end matrix: every cell equals `reference` bit for bit, and NumPy within what rounding allows, on every device here."""

from __future__ import annotations

import functools
import math
import os
import random

import matrix
import numpy as np
import pytest
from matrix import make_data, near_numpy
from matrix_run import SEEDS, cover, limits, small, trouble

from iree_reduce_plugin.compare import same_bits
from iree_reduce_plugin.devices import list_devices
from iree_reduce_plugin.plan import build_plan, make_job
from iree_reduce_plugin.problem import Problem
from iree_reduce_plugin.reference import tree
from iree_reduce_plugin.targets import find_target

DEVICES = {found.name: found for found in list_devices() if found.name in ("hip", "cuda", "vulkan", "cpu")}
QUICK_ELEMENTS = 1 << 20
FULL_CELLS, FULL_SEED = 1500, int(os.environ.get("IREE_REDUCE_MATRIX_SEED", "1"))


def on_devices(make, *arguments):
    """Parameters `(device, cell)` for every device; one that is absent is a single skipped test that gives the reason."""
    given = []
    for name, found in sorted(DEVICES.items()):
        if found.device is None:
            given.append(pytest.param(None, None, id=name, marks=pytest.mark.skip(reason=f"device {name}: {found.reason}")))
        else:
            given += [pytest.param(found.device, cell, id=f"{name}-{cell}") for cell in make(found.device.target, *arguments)]
    return pytest.mark.parametrize(("device", "cell"), given)


def sample(target):
    if target.startswith("vulkan"):
        return []
    size, most = limits(target)
    possible = functools.partial(matrix.fits, subgroup_size=size, max_subgroups=most)
    return [matrix.cell(choice, size) for choice in matrix.sampled(FULL_CELLS, possible, FULL_SEED)]


def check(device, cell):
    found = trouble(device, cell)
    assert found is None, found


def quick(target):
    """A quarter of the cover, without its largest arrays. CI runs the rest on the CPU as well."""
    return [cell for cell in cover(target) if math.prod(cell.problem.shape) <= QUICK_ELEMENTS][::4]


def largest(target):
    """Some of the rest that NumPy is quick to check."""
    found = [cell for cell in cover(target) if math.prod(cell.problem.shape) > QUICK_ELEMENTS and cell.problem.input.name in ("f32", "i32")]
    return found[:1] if target.startswith("vulkan") else found[:4]


def rest(target):
    return [cell for cell in cover(target) if cell not in quick(target) + largest(target)]


@on_devices(quick)
def test_cell(device, cell):
    check(device, cell)


@on_devices(largest)
def test_some_of_the_largest(device, cell):
    check(device, cell)


@pytest.mark.slow
@on_devices(rest)
def test_the_rest_of_the_cover(device, cell):
    check(device, cell)


@on_devices(lambda target: list(small(target))[::4])
def test_nothing_to_reduce(device, cell):
    check(device, cell)


@pytest.mark.slow
@on_devices(lambda target: [cell for i, cell in enumerate(small(target)) if i % 4])
def test_the_rest_of_nothing_to_reduce(device, cell):
    check(device, cell)


@pytest.mark.parametrize("target", ["gfx942", "gfx1100"])
def test_the_cells_of_a_gpu_are_accepted(target):
    """Nobody has run them where there is no GPU, but all of them fit one."""
    cells = cover(target)
    assert len(cells) > 200
    for cell in cells:
        make_job(cell.problem, cell.tuning, find_target(target))


@pytest.mark.slow
@on_devices(sample)
def test_the_full_product(device, cell):
    check(device, cell)


def test_the_cover_is_one():
    """Each pair of values that a random cell has is in the cover, too, and the cover is small."""
    size, most = limits("cpu")
    possible = functools.partial(matrix.fits, subgroup_size=size, max_subgroups=most)
    choices = matrix.pairwise(matrix.FACTORS, possible)
    assert len(choices) <= 300
    for choice in matrix.sampled(50, possible, 7):
        for pair in random.Random(0).sample([(a, b) for a in choice for b in choice if a < b], 20):
            assert any(all(found[name] == choice[name] for name in pair) for found in choices), {name: choice[name] for name in pair}


WRONG = {
    "lanes swapped": lambda order: order.lanes_swapped(),
    "elements descending": lambda order: order.reversed(3),
    "subgroups descending": lambda order: order.reversed(1),
    "steps descending": lambda order: order.reversed(0),
}


class Order:
    """The columns of a matrix as `[step, subgroup, lane, element]`, to be put in a wrong order."""

    def __init__(self, layout):
        tile = layout.columns
        self.shape = (tile.extent // tile.size, tile.subgroups, tile.lanes, tile.elements)
        self.columns = np.arange(tile.extent).reshape(self.shape)

    def reversed(self, axis):
        return np.flip(self.columns, axis).ravel()

    def lanes_swapped(self):
        """Lanes 1 and 2 change places: 0 and 1 are added to each other, in either order."""
        lanes = np.arange(self.shape[2])
        lanes[[1, 2]] = 2, 1
        return self.columns[:, :, lanes].ravel()


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_a_wrong_order_shows(wrong, dtype):
    """The comparison is sharp: random data summed in any other order than the tuning's are other bits."""
    problem = Problem.of((16, 4096), dtype)
    job, source = make_job(problem, SEEDS[1].tuning, find_target("cpu"))
    x = make_data(problem, "random", job.layout)
    result = build_plan(job, source, DEVICES["cpu"].device)(x)
    assert same_bits(result, tree(x, problem, job.layout))
    assert not same_bits(result, tree(x[:, WRONG[wrong](Order(job.layout))], problem, job.layout))


@pytest.mark.parametrize("data", ["random", "ones", "whole"])
def test_an_element_that_is_skipped_or_counted_twice_shows(data):
    problem = Problem.of((5, 1001))
    job, source = make_job(problem, SEEDS[1].tuning | {"workgroup": [4, 0]}, find_target("cpu"))
    x = make_data(problem, data, job.layout)
    x[x == 0] = 1
    result = build_plan(job, source, DEVICES["cpu"].device)(x)
    for change in (0, 2):
        other = x.copy()
        other[:, -1] *= change
        assert not same_bits(result, tree(other, problem, job.layout))
        assert data != "random" or (near_numpy(result, x, problem, job.layout) and not near_numpy(result * 1.001, x, problem, job.layout))


def test_what_same_bits_means():
    one = np.float32([1, np.nan, 0])
    payload = one.copy()
    payload.view("u4")[1] |= 5
    assert same_bits(one, payload) and not same_bits(one, -one)
    assert not same_bits(one, one.astype("f8")) and not same_bits(one, one[:2])
    assert not same_bits(np.float32([0.0]), np.float32([-0.0]))
