"""The NumPy call that does the same as a reduction of this package: what a user would have written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .element_types import ElementType
from .ops import OPS, find_op

Axis = int | tuple[int, ...] | None


def numpy_call(op: str, axis: Axis, dtype: str | None) -> Callable[[Any], Any] | None:
    """From an array to NumPy's result, or to those of several ops; None where NumPy has no such call. dtype: as of `reduce`.

    >>> numpy_call("sum,max", 0, None)(np.float32([[1, 2], [3, 4]]))
    (array([4., 6.], dtype=float32), array([3., 4.], dtype=float32))
    """
    find_op(op)  # says which are known
    found = [_call(name, axis, dtype) for name in op.split(",")]
    calls = [call for call in found if call is not None]
    if len(calls) < len(found):
        return None
    return calls[0] if len(calls) == 1 else lambda x: tuple(call(x) for call in calls)


def _call(op: str, axis: Axis, dtype: str | None) -> Callable[[Any], Any] | None:
    given: dict[str, Any] = {"axis": axis}
    if OPS[op].takes_dtype and dtype is not None:
        given["dtype"] = ElementType.of(dtype).numpy
    function: Any = _COMPOSED.get(op, np)
    if function is np:
        for name in OPS[op].numpy.split(".")[1:]:  # e.g. numpy.maximum.reduce
            function = getattr(function, name, None)
    return None if function is None else lambda x: function(x, **given)


# `numpy.linalg.norm` takes two axes for a matrix, of which it has other norms; it does the same as these.
_COMPOSED: dict[str, Any] = {
    "sum_of_squares": lambda x, **given: np.sum(np.square(x), **given),
    "l1": lambda x, **given: np.sum(np.abs(x), **given),
    "l2": lambda x, **given: np.sqrt(np.sum(np.square(x), **given)),
    "log_sum": lambda x, **given: np.log(np.sum(x, **given)),
}
