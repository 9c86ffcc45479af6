"""What has the reference's bits, and how near the rest comes."""

from __future__ import annotations

import numpy as np
import pytest

from iree_reduce_plugin.compare import Comparison, allowed_units, compare, units_apart
from iree_reduce_plugin.compiler import emit
from iree_reduce_plugin.devices import list_devices
from iree_reduce_plugin.exactness import fuses_products, is_exact
from iree_reduce_plugin.ops import OPS
from iree_reduce_plugin.plan import build_plan, compile, make_job
from iree_reduce_plugin.problem import Problem
from iree_reduce_plugin.targets import find_target

HERE = [found for found in list_devices() if found.name in ("hip", "cuda", "vulkan", "cpu")]
DEVICES = {found.name: found.device for found in HERE if found.device is not None}


@pytest.mark.parametrize("target", ["cpu", "gfx942", "gfx1100", "vulkan8", "sm_80"])
@pytest.mark.parametrize("shape", [(4096,), (5, 1000)])
@pytest.mark.parametrize("op", ["sum_of_squares", "l2", "sum"])
def test_squares_are_added_by_fma(op, shape, target):
    """LLVM would fuse them on some targets by itself, so that results alone do not show it."""
    job, _ = make_job(Problem.of(shape, op=op), None, find_target(target))
    assert ("math.fma" in emit(job, "schedule")) == (op != "sum") == fuses_products(job.problem)


def test_integers_have_nothing_to_fuse():
    assert not fuses_products(Problem.of((4, 4), "i4", "sum_of_squares")) and fuses_products(Problem.of((4, 4), "i4", "l2"))


@pytest.mark.parametrize("device", sorted(DEVICES))
@pytest.mark.parametrize("sums", ["of every size", "near 1", "around 1"])
def test_logarithms_come_as_near_as_is_said(device, sums):
    problem = Problem.of((20_000, 2), op="log_sum")
    job, source = make_job(problem, None, find_target(DEVICES[device].target))
    rng, n = np.random.default_rng(0), problem.rows
    totals = {
        "of every size": np.exp(rng.uniform(-80, 80, n)),
        "near 1": 1 + rng.uniform(-1e-3, 1e-3, n),
        "around 1": rng.uniform(0.5, 2, n),
    }[sums]
    x = np.stack([totals / 2, totals / 2], 1).astype("f4")
    found = compare(x, build_plan(job, source, DEVICES[device])(x), job)
    assert not found.exact and 0 < found.units <= found.allowed == allowed_units(job) and found.right, found
    assert found.difference <= found.tolerance


def test_units():
    one = np.float32([1, -2, np.nan, np.inf, 0])
    assert units_apart(one, one) == 0
    assert units_apart(np.nextafter(one, np.float32(-9)), one) == np.inf  # of infinity
    assert units_apart(np.float32([1.5]), np.float32([1 + 2**-23])) == 2**22 - 1
    assert units_apart(np.float32([np.nan]), np.float32([1])) == units_apart(np.int32([1]), np.int32([2])) == np.inf
    assert units_apart(np.float32([1]), np.float64([1])) == units_apart(np.zeros(2), np.zeros(3)) == np.inf
    assert units_apart(np.int32([1]), np.int32([1])) == 0


def test_a_comparison_says_what_is_right():
    assert Comparison(0.0, 0.0, 0.0).right and not Comparison(0.0, 1.0, 1.0).right  # exact: any other bit is wrong
    near = Comparison(0.0, 0.0, 3.0, exact=False, allowed=4.0)
    assert near.right and near.equal is False and not Comparison(0.0, 0.0, 5.0, exact=False, allowed=4.0).right
    assert Comparison(0.5, 1.0, None).right and Comparison(0.5, 1.0, None).equal is None and not Comparison(2.0, 1.0, None).right


@pytest.mark.parametrize("op", OPS)
def test_a_report_says_whether_it_is_exact(op, no_compiler):
    problem = Problem.of((0, 5), "i4", op)
    plan = compile((0, 5), "i4", op=op, target="cpu")
    assert plan.report["exact"] == is_exact(problem, find_target("cpu")) == (op not in ("log_sum", "logsumexp"))


@pytest.mark.parametrize(("op", "expected"), [("l2", 5.0), ("l1", 19.0), ("sum_of_squares", 25.0), ("fmax", 16.0), ("log_sum", np.log(19))])
def test_what_initial_joins(op, expected):
    """The sum of squares before the root, the sum before the logarithm; the result of the others."""
    x = np.float32([[0, 3, 0]])
    assert np.isclose(compile(x, op=op, initial=16, target="cpu")(x).item(), expected, rtol=1e-6)


def test_a_count_of_floats_is_compared_as_an_integer():
    """Its elements are floats, and what is added up is not: nothing is rounded."""
    x = np.float32([[0, 1, 2], [0, 0, 3]])
    job, _ = make_job(Problem.of(x.shape, op="count_nonzero"), None, find_target("cpu"))
    found = compare(x, np.int64([2, 1]), job)
    assert found.right and (found.difference, found.tolerance) == (0, 0)
    assert compare(x, np.int64([2, 2]), job).difference == 1


def test_a_logsumexp_near_zero_has_the_units_of_its_terms():
    """-1 + 1.0088: a unit of either is a hundred of the result's."""
    x = np.float64([[-2, -2, -2, -1, -2, -3, -3]])
    job, source = make_job(Problem.of(x.shape, x.dtype, "logsumexp"), None, find_target("cpu"))
    result = build_plan(job, source, DEVICES["cpu"])(x)
    assert compare(x, result, job).right
    assert compare(x, result + 4e-16, job).right and not compare(x, result + 1e-12, job).right
