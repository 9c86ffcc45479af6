"""How a result stands to NumPy's own and to the exact reference."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .element_types import ElementType
from .exactness import fuses_products, is_exact
from .expressions_numpy import array_value
from .job import Job
from .ops import OPS
from .problem import Problem
from .reference import as_matrix, trees

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Comparison:
    """difference: the largest absolute one from NumPy. tolerance: the most that two orders of summation can differ by.

    exact: whether every device gives the reference's bits, or only comes as near as `allowed`, in units in the last place
    units: the largest distance from the reference in such units, every NaN taken as one; None where there is no reference
    """

    difference: float
    tolerance: float
    units: float | None
    exact: bool = True
    allowed: float = 0.0

    @property
    def equal(self) -> bool | None:
        """Whether the result has the reference's bits; None where there is no reference."""
        return None if self.units is None else self.units == 0

    @property
    def right(self) -> bool:
        """Whether it is the reference's, or as near as its op allows; where there is none, whether it is near enough to NumPy's."""
        return self.difference <= self.tolerance if self.units is None else self.units <= self.allowed


def compare(x: Array, result: Array | tuple[Array, ...], job: Job, mask: Array | None = None) -> Comparison:
    """Compares the `result` of a job for `x` with NumPy and with the reference. mask: that of a masked problem.

    NumPy is made to accumulate as the kernel does, f16 and bf16 in f32, so that only the order differs.
    """
    if isinstance(result, tuple):  # of several ops: the first that is wrong, if one is
        found = [compare(x, one, _alone(job, name), mask) for one, name in zip(result, job.problem.op.asked.split(","), strict=True)]
        return next((each for each in found if not each.right), found[0])
    problem = job.problem
    inputs = [as_matrix(one, problem) for one in (x, mask) if one is not None]
    matrix = inputs[0]
    allowed = allowed_units(job)
    with np.errstate(all="ignore"):
        expected = numpys_own(matrix, problem, *inputs[1:]).reshape(problem.kept_shape)
        difference = _largest_difference(result, expected)
        tolerance = _tolerance(matrix, expected, problem, allowed, *inputs[1:])
    has_tree = job.layout is not None or problem.columns <= 1 or problem.is_empty
    reference = trees(inputs, problem, job.layout)[0].reshape(problem.kept_shape) if has_tree else None
    units = None if reference is None else units_apart(result, reference, size_of_terms(matrix, problem))
    return Comparison(difference, tolerance, units, is_exact(problem, job.target), allowed)


def _alone(job: Job, name: str) -> Job:
    """The job of one of several ops."""
    problem = job.problem
    alone = Problem.of(
        problem.shape,
        problem.input,
        name,
        problem.axes,
        problem.keepdims,
        masked=problem.masked,
        ddof=problem.ddof if OPS[name].takes_ddof else 0,
    )
    return dataclasses.replace(job, problem=dataclasses.replace(alone, map=problem.map))


def allowed_units(job: Job) -> float:
    """How far from the reference a result may be, in units in the last place of its type: 0 where it is exact.

    A logarithm, a division or a root is off by at most 4 (measured: 3 on the CPU), by 8 on Vulkan (4 by llvmpipe; near 1 Vulkan asks of a
    logarithm less than that of its drivers). Where products and sums are not fused, each step of a chain of squares is off by one rounding
    more, of half a unit.
    """
    problem = job.problem
    if is_exact(problem, job.target):
        return 0.0
    loose, steps = 4.0, job.layout.steps if job.layout is not None else 1
    if job.target.backend == "vulkan":
        loose = 8.0 + (steps if fuses_products(problem) else 0)
    if len(problem.accumulators) > 1:  # each merge divides, or takes an exponential
        loose *= steps + 8
    return loose if problem.result == problem.accumulator else 1.0 + loose * _eps(problem.accumulator) / _eps(problem.result)


def size_of_terms(matrix: Array, problem: Problem) -> Array | None:
    """For each result the size of what it is added up from last, where these may cancel; None where they don't.

    A logsumexp is the highest element and a logarithm, of a sum of at least 1: near 0 it has the units of these, not its own.
    """
    if problem.op.asked != "logsumexp" or matrix.size == 0:
        return None
    highest = np.abs(np.max(matrix.astype(np.float64), axis=1))
    return np.maximum(np.where(np.isfinite(highest), highest, 1.0), 1.0)


def units_apart(a: Array, b: Array, sizes: Array | None = None) -> float:
    """The largest distance between two arrays in units in the last place of `b`; 0 for the same bits, every NaN taken as one.

    sizes: what each unit is the last place of, where that is more than `b`; see `size_of_terms`.
    Infinite where shapes or types differ, where only one is NaN or infinite, and for integers that differ.

    >>> one = np.float32([1.0])
    >>> units_apart(np.nextafter(one, np.float32(2)), one), units_apart(one, one), units_apart(-one * 0, one * 0)
    (1.0, 0.0, 1.0)
    """
    if same_bits(a, b):
        return 0.0
    if a.shape != b.shape or a.dtype != b.dtype or not ElementType.of(a.dtype).is_float:
        return float("inf")
    wide, other = a.astype(np.float64).reshape(-1), b.astype(np.float64).reshape(-1)
    with np.errstate(all="ignore"):
        same = (wide == other) | (np.isnan(wide) & np.isnan(other))
        size = np.maximum(np.abs(other), _smallest(b.dtype) if sizes is None else sizes.reshape(-1))
        unit = _eps(ElementType.of(b.dtype)) * 2.0 ** np.floor(np.log2(size))
        apart = np.where(same, 0.0, np.abs(wide - other) / unit)
    return max(1.0, float(np.nan_to_num(apart, nan=np.inf, posinf=np.inf).max()))


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


def numpys_own(matrix: Array, problem: Problem, mask: Array | None = None) -> Array:
    """What NumPy's own functions make of `[rows, K]`, in the accumulator's precision and in an order of theirs."""
    elements = problem.element(array_value(matrix, problem.input)).raw
    start = {} if problem.initial is None else {"initial": problem.computed.numpy.type(problem.initial)}
    if problem.op.takes_ddof:
        start = {"ddof": problem.ddof}
    if mask is not None:
        start["where"] = mask
    result = _NUMPY[problem.op.asked](elements, start)
    if problem.finalize is not None:
        result = problem.finalize(array_value(result, problem.finalize.takes)).raw
    return np.asarray(result).astype(problem.result.numpy)


def _reduced(ufunc: np.ufunc) -> Callable[[Array, Any], Any]:
    return lambda x, start: ufunc.reduce(x, axis=1, dtype=x.dtype, **start)


_NUMPY: dict[str, Callable[[Array, Any], Any]] = {
    "sum": _reduced(np.add),
    "prod": _reduced(np.multiply),
    "max": _reduced(np.maximum),
    "min": _reduced(np.minimum),
    "fmax": _reduced(np.fmax),
    "fmin": _reduced(np.fmin),
    "any": lambda x, start: np.any(x, axis=1, **start),
    "all": lambda x, start: np.all(x, axis=1, **start),
    "bitwise_and": _reduced(np.bitwise_and),
    "bitwise_or": _reduced(np.bitwise_or),
    "bitwise_xor": _reduced(np.bitwise_xor),
    "count_nonzero": lambda x, start: np.count_nonzero(x, axis=1),
    "mean": lambda x, start: np.add.reduce(x, axis=1, where=start.get("where", True)) / _number(x, start.get("where", True)),
    "sum_of_squares": lambda x, start: np.add.reduce(x * x, axis=1, **start),
    "l1": lambda x, start: np.add.reduce(np.abs(x), axis=1, **start),
    "l2": lambda x, start: np.sqrt(np.add.reduce(x * x, axis=1, **start)),
    "log_sum": lambda x, start: np.log(np.add.reduce(x, axis=1, **start)),
    "argmax": lambda x, start: np.argmax(x, axis=1),
    "argmin": lambda x, start: np.argmin(x, axis=1),
    "argmax_last": lambda x, start: x.shape[1] - 1 - np.argmax(x[:, ::-1], axis=1),
    "argmin_last": lambda x, start: x.shape[1] - 1 - np.argmin(x[:, ::-1], axis=1),
    "ptp": lambda x, start: np.maximum.reduce(x, axis=1) - np.minimum.reduce(x, axis=1),
    "logsumexp": lambda x, start: np.logaddexp.reduce(x.astype(np.float64), axis=1, **start),
    "var": lambda x, start: np.var(x.astype(np.float64), axis=1, **start),
    "std": lambda x, start: np.std(x.astype(np.float64), axis=1, **start),
}


def _number(x: Array, where: Any) -> Any:
    """How many elements count, in x's type."""
    return np.sum(np.broadcast_to(where, x.shape), axis=1).astype(x.dtype)


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


def _tolerance(matrix: Array, expected: Array, problem: Problem, allowed: float, mask: Array | None = None) -> float:
    """A bound on what two orders can differ by: each errs by at most K * eps / 2 times the sum of the magnitudes (Higham, section 4.2).

    A product's bound is relative to the result. What an op does with a sum last makes more or less of its error; rounding to the
    result's type may then fall to either side once.
    """
    op, kind = problem.op, problem.computed
    if problem.finalize is not None and not any(element.is_float for element in problem.accumulators) and allowed == 0:
        return 0.0
    if problem.finalize is not None:
        return float("inf")  # what a function makes of an error is not known
    if problem.map is not None:
        matrix = problem.element(array_value(matrix, problem.input)).raw
    adds = op.adds or op.asked == "mean"
    rounds = adds or op.asked in ("prod", "logsumexp", "var", "std")
    if not kind.is_float or not problem.accumulator.is_float or not rounds or matrix.size == 0:
        return 0.0
    magnitude = _largest(np.abs(expected.astype(np.float64)))
    count: Any = problem.columns
    if mask is not None:
        matrix, count = np.where(mask, matrix, matrix.dtype.type(0)), np.maximum(np.sum(mask, axis=1), 1)
    errors = np.full(len(matrix), problem.columns * _eps(kind))  # relative ones of the total, for a product
    if adds:
        wide = np.abs(matrix.astype(np.float64))
        sizes = np.sum(wide * wide if fuses_products(problem) else wide, axis=1) + abs(problem.initial or 0)
        errors = problem.columns * _eps(kind) * sizes
        totals = np.abs(expected.astype(np.float64).reshape(-1))
        if op.asked == "mean":
            errors = errors / count
        elif op.asked == "l2":
            errors = np.where(totals > 0, errors / totals, np.sqrt(errors))
        elif op.asked == "log_sum":
            share = errors / np.exp(expected.astype(np.float64).reshape(-1))
            errors = np.where(np.isnan(share), 0.0, np.where(share < 0.5, 2 * share, np.inf))  # NaN: of a negative total
    elif op.asked in ("var", "std"):  # of K squares, and of the mean's distance from them
        wide = np.abs(matrix.astype(np.float64))
        errors = 4 * _eps(kind) * np.sum(wide * wide, axis=1) / np.maximum(1, count - problem.ddof)
        errors = errors if op.asked == "var" else np.sqrt(errors)
    elif op.asked == "logsumexp":
        errors = errors + 4 * _eps(kind) * magnitude
    else:
        errors = errors * magnitude
    usual = errors[~np.isnan(errors)]
    bound = float(usual.max(initial=0.0, where=np.isfinite(usual) | (op.asked == "log_sum")))
    finishing = (allowed + 1.0) * _eps(problem.result) * magnitude if problem.taken is None or problem.result != kind else 0.0
    return bound + finishing


def _largest(values: Array) -> float:
    """The largest finite one."""
    return float(np.max(values, where=np.isfinite(values), initial=0.0))


def _eps(element: ElementType) -> float:
    return float(_finfo(element.numpy).eps)


def _smallest(dtype: Any) -> float:
    """The smallest number whose last place is its type's."""
    return float(_finfo(dtype).smallest_normal)


def _finfo(dtype: Any) -> Any:
    if ElementType.of(dtype).name in ("f32", "f64", "f16"):
        return np.finfo(dtype)
    import ml_dtypes  # only where one of its types is really used

    return ml_dtypes.finfo(dtype)
