"""Calls drawn at random: each is the reference's, and near NumPy's, or refused as NumPy refuses it.

By default a fixed sample runs. `pytest -m slow tests/test_property.py` runs 2000 on the CPU and 300 on a GPU's interface, or
`IREE_REDUCE_EXAMPLES` of each; the same every time, others where `IREE_REDUCE_EXAMPLES_SEED` is another number.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, seed, settings
from property_cases import MEMORIES, Case, array, cases, mask
from test_numpy_calls import CALLS, answer

from iree_reduce_plugin import reduce, reference
from iree_reduce_plugin.compare import allowed_units, compare, numpys_own, same_bits, size_of_terms, units_apart
from iree_reduce_plugin.devices import Device, list_devices
from iree_reduce_plugin.errors import InputError
from iree_reduce_plugin.exactness import fuses_products, is_exact
from iree_reduce_plugin.job import Job
from iree_reduce_plugin.plan import make_job
from iree_reduce_plugin.problem import Problem
from iree_reduce_plugin.reference import as_matrix
from iree_reduce_plugin.targets import find_target
from iree_reduce_plugin.tuning import Tuning

DEVICES = {found.name: found for found in list_devices() if found.name in ("hip", "cuda", "vulkan", "cpu")}
QUICK, SLOW = {"vulkan": 20}, {"vulkan": 300}
BATCH = 10  # Hypothesis varies what it has drawn after the tenth: the next five would be much alike
SEED = int(os.environ.get("IREE_REDUCE_EXAMPLES_SEED", "1"))
# Why `reduce` may refuse what NumPy takes.
REASONS = (
    "not supported",
    "not accumulated in integers",
    "is not an integer",
    "is outside",
    "has none",
    "is not a number that",
    "no bits to combine",
)
SETTINGS = settings(max_examples=BATCH, deadline=None, database=None, suppress_health_check=list(HealthCheck), print_blob=False)


def batches(first: int, count: Callable[[str], int]) -> pytest.MarkDecorator:
    """Parameters `(device, seed)`; a device that is absent is a single skipped test that gives the reason."""
    given = []
    for name, found in sorted(DEVICES.items()):
        if found.device is None:
            given.append(pytest.param(None, 0, id=name, marks=pytest.mark.skip(reason=f"device {name}: {found.reason}")))
        else:
            given += [pytest.param(found.device, first + i, id=f"{name}-{first + i}") for i in range(-(-count(name) // BATCH))]
    return pytest.mark.parametrize(("device", "number"), given)


@batches(0, lambda name: QUICK.get(name, 60))
def test_a_fixed_sample(device, number):
    check(device, number)


@pytest.mark.slow
@batches(SEED * 1_000_000, lambda name: int(os.environ.get("IREE_REDUCE_EXAMPLES", SLOW.get(name, 2000))))
def test_many(device, number):
    check(device, number)


def check(device: Device, number: int) -> None:
    @seed(number)
    @SETTINGS
    @given(cases(device.target))
    def each(case: Case) -> None:
        found = trouble(case, device)
        assert found is None, f"{found}: {case}"

    each()


def trouble(case: Case, device: Device) -> str | None:
    """What is wrong with the call, in words; None where nothing is."""
    x = array(case)
    before = x.copy()
    where = mask(case)
    options = {**case.options, "op": case.op, "axis": case.axis, "where": where}
    result, error = answer(reduce, x, case.tuning, device=device.name, **options)
    numpys, refusal = numpys_answer(x, case)
    if not same_bits(x.astype(before.dtype.newbyteorder("=")), before.astype(before.dtype.newbyteorder("="))):
        return "the array was changed"
    if error is not None:
        return refused_wrongly(error, refusal)
    problem = case.problem()
    if refusal is None and numpys.shape != result.shape:
        return f"NumPy's shape is {numpys.shape}, this is {result.shape}"
    if result.dtype != problem.result.numpy or result.shape != problem.kept_shape:
        return f"type {result.dtype} or shape {result.shape} is not the problem's"
    job, _ = make_job(problem, case.tuning, find_target(device.target))
    # A subnormal number that the CPU only copies stays what it is: each result is one or the other.
    kept, zeroed = (np.asarray(reference(values, job.tuning or Tuning(), **options)) for values in (x, flushed(x, problem, device)))
    expected = np.where(equal(result, kept), kept, zeroed)
    sizes = size_of_terms(as_matrix(x, problem), problem)
    if units_apart(*alike(result, expected, problem, device), sizes) > allowed_units(job):
        return f"{show(result)} is not the reference's {show(expected)} (exact: {is_exact(problem, job.target)})"
    if refusal is None and exactly_numpys(problem):
        with np.errstate(all="ignore"):  # too large for a short type
            numpys, zeroed = (y.astype(result.dtype) for y in (numpys, numpys_answer(flushed(x, problem, device), case)[0]))
        if not (same := equal(result, numpys) | equal(result, zeroed)).all():
            return f"{show(result[~same])} is not {show(numpys[~same])}, which NumPy's own call gives"
    return far_from_numpy(x, where, result, job, case.options.get("initial")) if problem.rows and problem.columns else None


def equal(a: Any, b: Any) -> Any:
    return (a == b) | ((a != a) & (b != b))


def refused_wrongly(error: Exception, refusal: Exception | None) -> str | None:
    if "\n" in str(error):
        return f"the error has several lines: {error!r}"
    if refusal is None:
        understood = isinstance(error, InputError) and any(reason in str(error) for reason in REASONS)
        return None if understood else f"refused, and NumPy does it: {error!r}"
    classes = (np.exceptions.AxisError, TypeError, ValueError)
    wanted = next((kind for kind in classes if isinstance(refusal, kind)), InputError)
    return None if isinstance(error, (wanted, InputError)) else f"{error!r}, and NumPy raises {refusal!r}"


def numpys_answer(x: Any, case: Case) -> tuple[Any, Exception | None]:
    """What NumPy's own call gives, by its own way through axes and strides. Of some of ml_dtypes' types it has no arithmetic."""
    if x.dtype.name.startswith(("bfloat", "float8")):
        x = x.astype("f4")
    axis, options = case.axis, dict(case.options)
    if (where := mask(case)) is not None:
        options["where"] = where
    if not case.op.startswith("arg") or not isinstance(axis, tuple):
        return answer(CALLS[case.op], x, axis=axis, **options)
    axes = sorted({a % x.ndim for a in axis})  # NumPy takes one axis or all: they become one
    if len(axes) != len(axis):
        return answer(np.sum, x, axis=axis)
    kept = [a for a in range(x.ndim) if a not in axes]
    moved = x.transpose(*kept, *axes).reshape(*(x.shape[a] for a in kept), math.prod(x.shape[a] for a in axes))
    keepdims = options.pop("keepdims", False)
    numpys, refusal = answer(CALLS[case.op], moved, axis=-1, **options)
    return np.expand_dims(numpys, tuple(axes)) if keepdims and refusal is None else numpys, refusal


def exactly_numpys(problem: Problem) -> bool:
    """Whether NumPy's call gives the very same values, zeros of either sign and NaN being one."""
    name = problem.op.asked
    selects = name in ("max", "min", "fmax", "fmin", "any", "all", "count_nonzero") or name.startswith(("bitwise", "arg"))
    return selects or (name in ("sum", "prod") and not problem.computed.is_float)


def flushed(x: Any, problem: Problem, device: Device) -> Any:
    """IREE's CPU drivers take subnormal numbers for zeros, those of f32 in bf16, too; fmax and fmin compare integers there."""
    if not device.is_local or problem.input.name not in ("f32", "f64", "bf16") or problem.op.asked in ("fmax", "fmin"):
        return x
    with np.errstate(invalid="ignore"):  # ml_dtypes' NaN
        subnormal = np.abs(x) < ml_dtypes.finfo(x.dtype.newbyteorder("=")).smallest_normal
    return np.where(subnormal, np.copysign(x.dtype.type(0), x), x)


def alike(result: Any, expected: Any, problem: Problem, device: Device) -> tuple[Any, Any]:
    """Vulkan's drivers choose between zeros of either sign as they like."""
    if device.name != "vulkan" or problem.op.asked in ("fmax", "fmin"):
        return result, expected
    return tuple(np.where(a == 0, np.zeros_like(a), a) for a in (result, expected))


def far_from_numpy(x: Any, where: Any, result: Any, job: Job, initial: Any) -> str | None:
    """In the rows whose partial results can't overflow or vanish, whatever the order."""
    problem = job.problem
    matrix = as_matrix(x, problem).astype(x.dtype.newbyteorder("="))
    found = result.reshape(problem.rows)
    counted = None if where is None else as_matrix(np.broadcast_to(where, problem.shape), problem)
    chosen = settled_rows(matrix, counted, found, problem)
    if not chosen.any():
        return None
    options = {"initial": initial} if problem.op.takes_initial else {}
    part = Problem.of((int(chosen.sum()), problem.columns), problem.input, problem.op.asked, ddof=problem.ddof, masked=problem.masked,
                      out_dtype=problem.loop_type if problem.op.takes_dtype else None, **options)  # fmt: skip
    comparison = compare(matrix[chosen], found[chosen], Job(part, None, job.target), None if counted is None else counted[chosen])
    if not comparison.difference <= comparison.tolerance:
        return f"{show(result)} is {comparison.difference} from NumPy's, above {comparison.tolerance}"
    return None


def settled_rows(matrix: Any, counted: Any, result: Any, problem: Problem) -> Any:
    """Rows for which any order of the same operations ends near the same number."""
    name, computed = problem.op.asked, problem.computed
    with np.errstate(all="ignore"):
        elements = matrix.astype(problem.loop_type.numpy).astype(computed.numpy)
        if not computed.is_float:
            return np.ones(len(matrix), bool)
        if counted is not None:
            elements = np.where(counted, elements, elements.dtype.type(problem.op.asked == "prod"))
        limits, rounded = np.finfo(computed.numpy), ml_dtypes.finfo(problem.result.numpy) if problem.result.is_float else None
        wide = elements.astype(np.longdouble)
        sizes, finite = np.abs(wide), np.isfinite(wide)
        settled = ~((sizes > 0) & (sizes < float(limits.smallest_normal) * 2)).any(axis=1)
        if problem.op.adds or name in ("mean", "var", "std"):
            initial = np.nan_to_num(abs(float(problem.initial or 0)), posinf=0)
            powers = sizes**2 if fuses_products(problem) else sizes
            settled &= np.where(finite, powers, 0).sum(axis=1) + initial < float(limits.max) / 2
        if name in ("var", "std"):
            settled &= problem.ddof < (problem.columns if counted is None else counted.sum(axis=1))
        if name == "prod":
            logs = np.abs(np.log2(np.where(finite & (sizes > 0), sizes, 1))).sum(axis=1)
            joined = abs(float(problem.initial or 1))
            settled &= (logs < -np.log2(float(limits.smallest_normal)) / 2) & finite.all(axis=1) & (1e-6 < joined < 1e6)
        if rounded is not None and problem.result != computed:
            own = numpys_own(matrix, problem, counted).astype("f8")
            for value, other in ((own, result.astype("f8")), (result.astype("f8"), own)):
                settled &= np.isfinite(other) | ~(np.abs(value) > 0.9 * float(rounded.max))
    return settled


def show(values: Any) -> str:
    return str(values.ravel()[:4])


@pytest.mark.parametrize("memory", MEMORIES)
def test_a_layout_changes_no_value(memory):
    """Or errors of the package's own copies would hide behind those of the test's."""
    case = Case((3, 4, 5), "f32", "sum", 1, {}, None, seed=5)
    x = array(dataclasses.replace(case, memory=memory))
    assert same_bits(np.ascontiguousarray(x.astype("f4")), array(case))
    assert x.flags.c_contiguous or memory not in ("C", "read-only", "big-endian", "misaligned")
    assert not x.flags.contiguous or memory != "strided"
