"""`compile` and the `Plan` it gives: one reduction, compiled once, to be run many times."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

import iree.runtime as rt
import numpy as np

from .compiler import DEFAULT_TIMEOUT, Artifact, load_or_compile
from .defaults import default_tuning
from .devices import Device, find_device
from .errors import DeviceError, InputError, check
from .functions import Given
from .job import Job
from .layout import Layout
from .numpy_rules import Number, mask_of, put
from .problem import Problem
from .run import STOCK_ALIGNMENT, Executable
from .shape_text import shape_and_type
from .targets import Target, find_target
from .tuning import Tuning
from .verify import check_supported, verify_problem
from .words import array_name

if TYPE_CHECKING:
    import os

Array = np.ndarray[Any, np.dtype[Any]]

_NOTHING_LEFT = "nothing is left to reduce (K = 1)"
_EMPTY = "the array is empty"


class Plan:
    """A compiled reduction. Calling it with an array of the shape and type it was compiled for gives the result.

    problem: what is computed. target: what it is compiled for. strategy: `subgroup`, `iree` or `default`.
    tuning: the full form of the tuning; None where there is none. tuning_source: where it came from, for a reader.

    >>> import numpy as np
    >>> plan = compile("4x4096xf32", target="cpu")
    >>> plan(np.ones((4, 4096), "f4")).tolist(), plan.tuning_source
    ([4096.0, 4096.0, 4096.0, 4096.0], 'default for cpu')
    """

    def __init__(self, job: Job, tuning_source: str, artifact: Artifact | None, device: Device | None = None):
        """artifact: None where the array is empty. device: where it runs; None: the device of the job's target."""
        self.problem, self.target = job.problem, job.target
        self.tuning, self.tuning_source = job.tuning, tuning_source
        self.strategy = job.strategy
        self._job, self._artifact, self._device = job, artifact, device
        self._shape, self._dtype = job.problem.shape, job.problem.input.numpy
        self._result_shape = job.problem.kept_shape
        self._memory, self._masked = job.problem.memory_shape, job.problem.masked
        self._executable: Executable | None = None

    def __call__(self, x: Any, where: Any = None, out: Any = None) -> Any:
        """The result for `x`, an array of its own with the shape and type that NumPy's reduction has; of several ops a tuple of them.

        x: an array of the plan's shape and type; strided, read-only and big-endian ones are copied first. Or one on the plan's device
        (`to_device`), for which the result stays there, too.
        where: the mask, bools of that shape or broadcast to it, of a plan that was compiled for one.
        out: an array that takes the result, as NumPy's; of several ops a tuple of them.
        Raises InputError for another shape or type, DeviceError where the target's device is absent or fails.
        """
        if type(x) is not np.ndarray and isinstance(x, rt.DeviceArray):
            check(out is None, "out: the result of an array on the device stays there, as an array of its own; leave it out", InputError)
            return self._on_device(x, where)
        array = x if type(x) is np.ndarray else as_array(x)
        if array.shape != self._shape or array.dtype != self._dtype:
            array = self._converted(array)
        mask = None if where is None and not self._masked else self._mask(where).reshape(self._memory)
        if self._artifact is None:
            return self._given(self._empty_results(), out)
        # Two threads that come here at once load the module twice, and one of the two is used from then on.
        executable = self._executable or self._load(self._artifact)
        if array.shape != self._memory:
            array = array.reshape(self._memory)
        results = executable(array) if mask is None else executable(array, mask)
        return results[0] if out is None and len(results) == 1 else self._given(results, out)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the compiled module (.vmfb): its function `reduce` takes the array with neighbouring axes of one kind, kept or reduced, as
        one axis (axis 1 of 4x8x5x6 is 4x8x30), and gives the result in the same way.

        Raises InputError where nothing was compiled (an empty array), OSError where the path can't be written.
        """
        with open(path, "wb") as file:
            file.write(self.vmfb)

    @property
    def vmfb(self) -> bytes:
        """The compiled module's bytes; InputError where nothing was compiled."""
        if self._artifact is None:
            raise InputError(f"{self.problem}: {_EMPTY}, so that nothing was compiled and there is no module")
        return self._artifact.vmfb

    @property
    def layout(self) -> Layout | None:
        """Which thread holds which elements (`layout.holds`); None where there is no tuning."""
        return self._job.layout

    @functools.cached_property
    def report(self) -> dict[str, Any]:
        """What was compiled, as data for JSON: target, strategy, tuning, and the figures of each dispatch."""
        from .report import build_report  # only here: a call of `reduce` doesn't need it

        if self._artifact is None:
            note = f"{_EMPTY}: nothing is compiled, and NumPy makes the result"
            return {**build_report(self._job, self.tuning_source, ()), "note": note}
        return build_report(self._job, self.tuning_source, self._artifact.dispatches)

    def explain(self) -> str:
        """Why the tuning is as it is, how much of the device works, and what is in flight: some lines for a reader."""
        from .explain import explain  # only here: a call of `reduce` doesn't need it

        return explain(self._job, self.report["dispatches"])

    def __repr__(self) -> str:
        return f"<Plan: {self.problem}, for {self.target.name}, strategy {self.strategy}, tuning {self.tuning_source}>"

    def _converted(self, array: Array) -> Array:
        """Big-endian values in this machine's order; InputError for any other difference from what was compiled."""
        if array.shape == self._shape and array.dtype.newbyteorder("=") == self._dtype:
            return array.astype(self._dtype)
        given, wanted = array_name(array.shape, array.dtype), array_name(self._shape, self._dtype)
        remedy = f'cast it, e.g. x.astype("{self._dtype.name}")' if array.shape == self._shape else "compile a plan for that shape"
        raise InputError(f"array {given}: the plan is for {wanted}; {remedy}")

    def to_device(self, x: Any) -> Any:
        """A copy of an array on the device that the plan runs on, an `iree.runtime.DeviceArray`: calls with it send nothing.

        >>> import numpy as np
        >>> plan = compile("4x4096xf32", target="cpu")
        >>> plan.to_host(plan(plan.to_device(np.ones((4, 4096), "f4")))).tolist()
        [4096.0, 4096.0, 4096.0, 4096.0]
        """
        from .device_arrays import to_device  # only here: a call with NumPy's arrays doesn't need it

        return to_device(as_array(x), self._loaded())

    def to_host(self, array: Any) -> Array:
        """A copy of a device array of the plan's device, as a NumPy array."""
        from .device_arrays import to_host

        return to_host(array, self._loaded())

    def _on_device(self, x: Any, where: Any) -> Any:
        from .device_arrays import call_on_device

        check(where is None or self._masked, "where: the plan was compiled without a mask; compile it with masked=True", InputError)
        return call_on_device((x, where) if self._masked else (x,), self.problem, self._loaded())

    def _loaded(self) -> Executable:
        check(self._artifact is not None, f"{self.problem}: {_EMPTY}, so that nothing runs on a device", InputError)
        return self._executable or self._load(self._artifact)  # type: ignore[arg-type]

    def _mask(self, where: Any) -> Array:
        given = True if where is None else where
        if self._masked:
            mask = mask_of(given, self._shape)
            return np.ones(self._shape, bool) if mask is None else mask
        raise InputError("where: the plan was compiled without a mask; compile it with masked=True")

    def _given(self, results: list[Array], out: Any) -> Any:
        if out is not None:
            return put(results, out)
        return results[0] if len(results) == 1 else tuple(results)

    def _empty_results(self) -> list[Array]:
        from .reference import trees  # only here: an exception

        inputs = [np.zeros((self.problem.rows, self.problem.columns), element.numpy) for element in self.problem.inputs]
        return [result.reshape(self._result_shape) for result in trees(inputs, self.problem, None)]

    def _load(self, artifact: Artifact) -> Executable:
        problem = self.problem
        self._executable = Executable(
            artifact.vmfb,
            self._device or _device_of(self.target),
            self._memory,
            problem.inputs,
            self._result_shape,
            problem.results,
            # Our schedule's loads are of vectors that are aligned as their elements; IREE's own code assumes more.
            1 if self._job.has_schedule else STOCK_ALIGNMENT,
        )
        return self._executable


def compile(
    shape: Any,
    dtype: object = None,
    tuning: object = None,
    *,
    op: str | tuple[str, ...] = "sum",
    axis: int | tuple[int, ...] | None = -1,
    keepdims: bool = False,
    out_dtype: object = None,
    initial: Number | None = None,
    ddof: int = 0,
    map: Given | None = None,
    finalize: Given | None = None,
    masked: bool = False,
    target: str | None = None,
    strategy: str = "subgroup",
    timeout: float = DEFAULT_TIMEOUT,
) -> Plan:
    """Compiles one reduction, over the last axis unless told otherwise, or takes it from the cache.

    shape: a tuple of integers, text such as `4x4096xf32`, or an array, whose values are not looked at.
    dtype: the array's element type, f32 where it is left out; text and arrays name it themselves.
    tuning: anything that `Tuning.parse` takes; None: a good one for the problem and the target.
    out_dtype: NumPy's `dtype=`, the type that is accumulated and returned.
    masked: whether calls have NumPy's `where=`, as `plan(x, where)`.
    target: `cpu`, `gfx942`, ...; None: that of the default device. strategy: `subgroup`, `iree` or `default`.
    timeout: seconds the compiler may take.

    Raises InputError and TuningError before anything is compiled, AxisError and ValueError as NumPy does, CompileTimeout, CompileError.

    >>> plan = compile((4, 4096), "f16", op="max", axis=1, target="gfx942")
    >>> plan.problem.result.name, plan.report["dispatches"][0]["subgroup_size"]
    ('f16', 64)
    """
    extents, element = shape_and_type(shape, dtype)
    problem = Problem.of(extents, element, op, axis, keepdims, out_dtype, initial, ddof, map, finalize, masked)
    job, source = make_job(problem, tuning, find_target(find_device().target if target is None else target), strategy)
    return build_plan(job, source, timeout=timeout)


def make_job(problem: Problem, tuning: object, target: Target, strategy: str = "subgroup") -> tuple[Job, str]:
    """The verified job, and where its tuning comes from. Compiles nothing. Raises TuningError and InputError.

    >>> job, source = make_job(Problem.of((4, 1)), None, find_target("cpu"))
    >>> job.tuning, source
    (None, 'none: nothing is left to reduce (K = 1)')
    """
    check_supported(problem, target, strategy)
    given = None if tuning is None else verify_problem(Tuning.parse(tuning), problem, target, strategy)
    if problem.is_empty or problem.columns == 1:
        reason = _EMPTY if problem.is_empty else _NOTHING_LEFT
        return Job(problem, None, target, strategy), f"{'none' if given is None else 'given, not used'}: {reason}"
    if strategy == "default":
        return Job(problem, None, target, strategy), "none: strategy default is IREE without a tuning"
    if given is not None:
        return Job(problem, given, target, strategy), "given"
    chosen = default_tuning(problem, target)
    if strategy == "iree":
        chosen = dataclasses.replace(chosen, split_reduction=None)  # its pipeline takes K whole
    chosen = verify_problem(chosen, problem, target, strategy)
    return Job(problem, chosen, target, strategy), f"default for {target.name}"


def build_plan(job: Job, tuning_source: str, device: Device | None = None, timeout: float = DEFAULT_TIMEOUT) -> Plan:
    """The plan of a job that `make_job` gave. Raises CompileTimeout and CompileError."""
    usable = isinstance(timeout, (int, float)) and 0 < timeout < 1e9
    check(usable, f"timeout {timeout!r}: give a number of seconds above 0, e.g. {DEFAULT_TIMEOUT:g}", InputError)
    artifact = None if job.problem.is_empty else load_or_compile(job, timeout)
    return Plan(job, tuning_source, artifact, device)


def as_array(x: Any) -> Array:
    """What `numpy.asarray` makes of `x`; InputError for a masked array, whose mask would be lost.

    >>> as_array([1, 2]).tolist()
    [1, 2]
    """
    check(
        not (isinstance(x, np.ndarray) and isinstance(x, np.ma.MaskedArray)),
        "masked arrays are not supported: fill in what the masked elements count for, e.g. x.filled(0)",
        InputError,
    )
    check(not isinstance(x, np.matrix), "matrices are not supported: NumPy keeps them 2-d; use numpy.asarray(x)", InputError)
    return np.asarray(x)


def _device_of(target: Target) -> Device:
    try:
        device = find_device(target.driver if target.is_gpu else "cpu")
    except DeviceError as e:
        raise DeviceError(f"the plan is for {target.name}: {e}") from None
    if device.target != target.name:
        raise DeviceError(f"the plan is for {target.name}, and the GPU here is a {device.target}: compile it for target {device.target}")
    return device
