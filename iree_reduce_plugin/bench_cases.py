"""The cases of a benchmark, and who takes part in each: their results are checked before anything is timed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .bench import ABSENT, WRONG, Contender
from .bench_bandwidth import readers_of
from .bench_numpy import Axis, numpy_call
from .compare import compare
from .compiler import DEFAULT_TIMEOUT
from .devices import Device
from .errors import InputError, ReduceError, check
from .job import Job
from .plan import build_plan, make_job
from .problem import Problem
from .random_array import random_array
from .run import STOCK_ALIGNMENT
from .shape_text import parse_shape
from .targets import Target, find_target

Array = np.ndarray[Any, np.dtype[Any]]

OURS = "subgroup"
RIVALS = ("numpy", "iree", "default")


@dataclass(frozen=True)
class Spec:
    """What a case computes: the command line's options. shape: with its type, e.g. `4096x4096xf32`."""

    shape: str
    op: str = "sum"
    axis: Axis = -1
    dtype: str | None = None

    @property
    def problem(self) -> Problem:
        """Raises InputError, AxisError and ValueError; InputError too where there is nothing to reduce, and so nothing to time."""
        problem = Problem.of(*parse_shape(self.shape), self.op, self.axis, False, self.dtype)
        check(
            not problem.is_empty and problem.columns > 1,
            f"shape {self.shape}, axis {axis_text(self.axis)}: nothing to reduce, so nothing to time; give e.g. 4096x4096xf32",
            InputError,
        )
        return problem


@dataclass(frozen=True)
class Case:
    """readers: what reads the same array, for the bandwidth; none where the device has memory of its own."""

    spec: Spec
    nbytes: int
    contenders: Sequence[Contender]
    readers: Sequence[Contender] = ()


@dataclass
class Setting:
    """Makes cases for one device. rivals: who takes part besides this package's schedule. Arrays of one shape and type are shared."""

    device: Device
    rivals: Sequence[str] = RIVALS
    tuning: object = None
    seed: int = 0
    timeout: float = DEFAULT_TIMEOUT
    _arrays: dict[tuple[str, bool], Array] = field(default_factory=dict)

    def case(self, spec: Spec) -> Case:
        """Compiles and checks all who take part. Raises for this package's own schedule; a rival that can't be had is absent."""
        problem = spec.problem
        x = self._array(spec, problem)
        made = {OURS: self._ours(problem, x)}
        if "numpy" in self.rivals:
            made["numpy"] = _numpy(spec, x)
        for name in ("iree", "default"):
            if name in self.rivals:
                made[name] = self._of_iree(name, problem, x)
        order = [made[name] for name in ("numpy", OURS, "iree", "default") if name in made]
        return Case(spec, x.nbytes, order, readers_of(x) if self.device.is_local else ())

    def _ours(self, problem: Problem, x: Array) -> Contender:
        job, source = make_job(problem, self.tuning, self._target)
        return _checked(OURS, build_plan(job, source, self.device, self.timeout), x, job)

    def _of_iree(self, name: str, problem: Problem, x: Array) -> Contender:
        """By IREE's own pipelines, which add in an order of their own: near NumPy's result is right."""
        try:
            job, source = strategy_job(name, problem, self.tuning, self._target)
            return _checked(name, build_plan(job, source, self.device, self.timeout), x, dataclasses.replace(job, tuning=None))
        except ReduceError as e:
            return Contender(name, None, ABSENT, str(e))

    @property
    def _target(self) -> Target:
        return find_target(self.device.target)

    def _array(self, spec: Spec, problem: Problem) -> Array:
        key = spec.shape, spec.op in ("prod", "log_sum")  # which have values of their own
        if key not in self._arrays:
            self._arrays[key] = _aligned(random_array(problem, self.seed))
        return self._arrays[key]


def strategy_job(name: str, problem: Problem, tuning: object, target: Target) -> tuple[Job, str]:
    """The job of a strategy, and where its tuning comes from; `default` has none."""
    return make_job(problem, None if name == "default" else tuning, target, name)


def axis_text(axis: Axis) -> str:
    """As the option is written."""
    return "all" if axis is None else ",".join(map(str, axis)) if isinstance(axis, tuple) else str(axis)


def _aligned(x: Array) -> Array:
    """The same, where IREE's own code can read it without copying it first."""
    memory = np.empty(x.nbytes + STOCK_ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % STOCK_ALIGNMENT
    placed = memory[start : start + x.nbytes].view(x.dtype).reshape(x.shape)
    placed[...] = x
    return placed


def _checked(name: str, call: Callable[[Array], Any], x: Array, job: Job) -> Contender:
    found = compare(x, call(x), job)
    if found.right:
        return Contender(name, lambda: call(x))
    apart = "" if found.units is None else f", {found.units:.3g} units in the last place from the reference, {found.allowed:.3g} allowed"
    reason = f"largest difference from NumPy {found.difference:.3g}, tolerance {found.tolerance:.3g}{apart}"
    return Contender(name, None, WRONG, reason)


def _numpy(spec: Spec, x: Array) -> Contender:
    """The yardstick: what it gives is not checked. Some calls it doesn't have, e.g. argmax of two axes."""
    call = numpy_call(spec.op, spec.axis, spec.dtype)
    if call is None:
        return Contender("numpy", None, ABSENT, f"NumPy has no call for op {spec.op}")
    try:
        with np.errstate(all="ignore"):
            call(x)
    except (TypeError, ValueError) as e:
        return Contender("numpy", None, ABSENT, f"NumPy: {e}")
    return Contender("numpy", lambda: call(x))
