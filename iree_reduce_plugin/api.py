"""`reduce`: from an array to its result in one call, by plans that are kept between calls."""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np

from .devices import Device, find_device
from .functions import Given
from .numpy_rules import Number, mask_of
from .plan import Array, Plan, as_array, build_plan, make_job
from .problem import Problem
from .targets import find_target
from .tuning import Tuning

_MOST_PLANS = 512

_plans: dict[tuple[Any, ...], Plan] = {}
_lock = threading.Lock()


def reduce(
    x: Any,
    tuning: object = None,
    *,
    op: str | tuple[str, ...] = "sum",
    axis: int | tuple[int, ...] | None = -1,
    keepdims: bool = False,
    dtype: object = None,
    initial: Number | None = None,
    ddof: int = 0,
    map: Given | None = None,
    finalize: Given | None = None,
    where: Any = None,
    out: Any = None,
    device: str | None = None,
) -> Any:
    """Reduces the last axis (NumPy's default is all of them: `axis=None`), and returns a NumPy array.

    x: anything that `numpy.asarray` takes, of a float type of 16 bits or more or an 8-bit one of `ml_dtypes`, an integer type or bool.
    tuning: how the work is spread and in which order it is summed, in any form that `Tuning.parse` takes; None: a good one for the
    device and the shape. The same tuning gives the same bits on every device; but IREE's CPU drivers take subnormals for zeros.
    op: sum, prod, max, min, fmax, fmin, any, all, bitwise_and, bitwise_or, bitwise_xor, count_nonzero, mean, sum_of_squares, l1, l2,
    log_sum, logsumexp, var, std, argmax, argmin (of equals the first; argmax_last, argmin_last the last), ptp; several as a tuple: the
    array is read once, and a tuple of results returned.
    axis, keepdims, dtype, initial, ddof (of var and std): as NumPy's; `dtype="i4"` keeps the sum of an i32 array in 32 bits; what
    `initial` joins of an l2 is the sum of squares, of a log_sum the sum.
    map, finalize: functions of each element before the reduction and of each result after it, in the same kernel: the name of a NumPy
    function (`"square"`), or Python over `iree_reduce_plugin.expressions`, e.g. `lambda x: where(x > 0, x, 0)`.
    where: NumPy's, a mask of bools that is broadcast to x: the elements that count. out: NumPy's, an array that takes the result.
    device: `hip`, `cuda`, `vulkan`, `cpu`, `local-task` or `local-sync`; None: `$IREE_REDUCE_DEVICE`, else a usable GPU, else `cpu`.

    The result has NumPy's shape and type; shorter floats are accumulated in f32 and rounded once. The first call for a shape
    compiles, unless the cache on disk has it; later ones run at once. Threads may call it together.

    Raises InputError, TuningError, AxisError or ValueError for what is wrong with the arguments, and nothing is compiled then;
    CompileError, CompileTimeout, DeviceError.

    >>> reduce([[1.0, 2.0], [3.0, 4.0]]).tolist()
    [3.0, 7.0]
    >>> reduce(np.arange(6).reshape(2, 3), op="max", axis=None, keepdims=True).tolist()
    [[5]]
    >>> reduce(np.float32([1, 2, 3]), map=lambda x: x * x + 1, finalize="sqrt").item() == np.sqrt(np.float32(17))
    True
    """
    array = x if type(x) is np.ndarray else as_array(x)
    if tuning is not None and type(tuning) is not Tuning:
        tuning = Tuning.parse(tuning)  # each time: a dict can't be a key, and a file may have changed
    found = find_device(device)
    mask = None if where is None else mask_of(where, array.shape)
    # 1 == 1.0 == True, and 0.0 == -0.0, but they are not the same axis or the same start.
    key = (
        array.shape,
        array.dtype,
        tuning,
        op,
        axis if type(axis) is int else repr(axis),
        keepdims,
        dtype,
        None if initial is None else (type(initial), repr(initial)),
        ddof,
        map,  # a function that is written anew for each call is traced anew, and what it compiles to is found in the cache
        finalize,
        mask is not None,
        found.name,
    )
    try:
        plan = _plans.get(key)
    except TypeError:  # an argument that can't be a key is of a wrong type, which is said below
        plan = None
    if plan is None:
        plan = _make(array, tuning, op, axis, keepdims, dtype, initial, ddof, map, finalize, mask is not None, found)
        _keep(key, plan)
    return plan(array, mask, out)


def _make(
    array: Array,
    tuning: object,
    op: str | tuple[str, ...],
    axis: int | tuple[int, ...] | None,
    keepdims: bool,
    dtype: object,
    initial: Number | None,
    ddof: int,
    map: Given | None,
    finalize: Given | None,
    masked: bool,
    device: Device,
) -> Plan:
    problem = Problem.of(array.shape, array.dtype, op, axis, keepdims, dtype, initial, ddof, map, finalize, masked)
    job, source = make_job(problem, tuning, find_target(device.target))
    return build_plan(job, source, device)


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _keep(key: tuple[Any, ...], plan: Plan) -> None:
    with _lock:
        _plans[key] = plan
        while len(_plans) > _MOST_PLANS:
            del _plans[next(iter(_plans))]  # the oldest
