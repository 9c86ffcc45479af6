"""How a result stands to NumPy's own and to the exact reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .element_types import ElementType
from .job import Job
from .problem import Problem
from .reference import as_matrix, tree

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Comparison:
    """difference: the largest absolute one from NumPy. tolerance: the most that two orders of summation can differ by.

    equal: whether the result has the reference's bits, every NaN taken as one; None where there is no reference.
    """

    difference: float
    tolerance: float
    equal: bool | None

    @property
    def right(self) -> bool:
        """Whether it is the reference's; where there is none, whether it is near enough to NumPy's."""
        return self.difference <= self.tolerance if self.equal is None else self.equal


def compare(x: Array, result: Array, job: Job) -> Comparison:
    """Compares the `result` of a job for `x` with NumPy and with the reference.

    NumPy is made to accumulate as the kernel does, f16 and bf16 in f32, so that only the order differs.
    """
    problem = job.problem
    matrix = as_matrix(x, problem)
    with np.errstate(all="ignore"):
        expected = _numpy(matrix, problem).reshape(problem.kept_shape)
        difference = _largest_difference(result, expected)
        tolerance = _tolerance(matrix, expected, problem)
    has_tree = job.layout is not None or problem.columns <= 1 or problem.is_empty
    equal = same_bits(result, tree(matrix, problem, job.layout).reshape(problem.kept_shape)) if has_tree else None
    return Comparison(difference, tolerance, equal)


def same_bits(a: Array, b: Array) -> bool:
    """Whether two arrays have the same shape, type and bytes, every NaN taken as one.

    >>> same_bits(np.float32([0.0, np.nan]), -np.float32([0.0, np.nan]))
    False
    """
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    differ = a.reshape(-1).view(f"u{a.itemsize}") != b.reshape(-1).view(f"u{b.itemsize}")
    if ElementType.of(a.dtype).is_float:
        differ &= ~(np.isnan(a) & np.isnan(b)).reshape(-1)
    return not differ.any()


def _numpy(matrix: Array, problem: Problem) -> Array:
    elements = matrix.astype(problem.loop_type.numpy).astype(problem.accumulator.numpy)
    start = {} if problem.initial is None else {"initial": problem.accumulator.numpy.type(problem.initial)}
    total: Array = problem.op.ufunc.reduce(elements, axis=1, dtype=problem.accumulator.numpy, **start)
    return total.astype(problem.result.numpy)


def _largest_difference(a: Array, b: Array) -> float:
    """0 where both are the same infinity or NaN; infinite where only one is NaN."""
    if a.size == 0:
        return 0.0
    if not ElementType.of(a.dtype).is_float:
        wrong = a != b  # in Python's integers: NumPy's may wrap round
        return float(max((abs(p - q) for p, q in zip(a[wrong].tolist(), b[wrong].tolist(), strict=True)), default=0))
    wide = [values.astype(np.float64).reshape(-1) for values in (a, b)]
    same = (wide[0] == wide[1]) | (np.isnan(wide[0]) & np.isnan(wide[1]))
    differences = np.where(same, 0.0, np.abs(wide[0] - wide[1]))
    return float(np.nan_to_num(differences, nan=np.inf, posinf=np.inf).max())


def _tolerance(matrix: Array, expected: Array, problem: Problem) -> float:
    """A bound on what two orders can differ by: each errs by at most K * eps / 2 times the sum of the magnitudes (Higham, section 4.2).

    A product's bound is relative to the result. Rounding to the result's type may then fall to either side once.
    """
    kind = problem.accumulator
    if not kind.is_float or not problem.op.widens or matrix.size == 0:
        return 0.0
    magnitude = _largest(np.abs(expected.astype(np.float64)))
    scale = magnitude
    if problem.op.name == "sum":
        scale = _largest(np.asarray(np.sum(np.abs(matrix), axis=1, dtype=np.float64))) + abs(problem.initial or 0)
    return problem.columns * _eps(kind) * scale + (_eps(problem.result) * magnitude if problem.result != kind else 0.0)


def _largest(values: Array) -> float:
    """The largest finite one."""
    return float(np.max(values, where=np.isfinite(values), initial=0.0))


def _eps(element: ElementType) -> float:
    return float({"f64": 2.0**-52, "f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7}[element.name])
