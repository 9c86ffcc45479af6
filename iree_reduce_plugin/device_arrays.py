"""Data that stays on the device between calls: IREE's device arrays, given to a plan and returned by it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import iree.runtime as rt
import numpy as np

from .element_types import ElementType
from .errors import InputError, check
from .run import Executable, element_code
from .words import array_name

if TYPE_CHECKING:
    from .plan import Array
    from .problem import Problem

# Those that NumPy and IREE's device arrays both have.
SUPPORTED = ("f16", "f32", "f64", *(f"{sign}{bits}" for sign in ("i", "ui") for bits in (8, 16, 32, 64)), "bool")


def to_device(array: Array, executable: Executable) -> Any:
    """A copy of the array on the executable's device, as an `iree.runtime.DeviceArray`."""
    _check_type(ElementType.of(array.dtype))
    whole = np.ascontiguousarray(array)
    return _wrapped(executable, executable.send(whole.view(np.uint8) if whole.dtype == bool else whole), array.shape, array.dtype)


def to_host(array: Any, executable: Executable) -> Array:
    """A copy of a device array as a NumPy array."""
    shape, dtype = tuple(array.shape), array.dtype
    return executable.fetch(_view(array, shape, dtype, shape, executable), shape, dtype)


def call_on_device(arrays: tuple[Any, ...], problem: Problem, executable: Executable) -> Any:
    """The results for device arrays of the problem's shape and types, as device arrays; of several ops as a tuple."""
    for element in (*problem.inputs, *problem.results):
        _check_type(element)
    given = zip(arrays, problem.inputs, strict=True)
    views = [_view(array, problem.shape, element.numpy, problem.memory_shape, executable) for array, element in given]
    found = zip(executable.on_device(views), problem.results, strict=True)
    results = tuple(_wrapped(executable, view, problem.kept_shape, element.numpy) for view, element in found)
    return results[0] if len(results) == 1 else results


def _check_type(element: ElementType) -> None:
    check(element.name in SUPPORTED, f"device arrays of {element.name} are not supported: use NumPy arrays, or f32", InputError)


def _view(array: Any, shape: tuple[int, ...], dtype: np.dtype[Any], memory: tuple[int, ...], executable: Executable) -> Any:
    """The array as the kernel takes it."""
    check(
        isinstance(array, rt.DeviceArray),
        f"where: a {type(array).__name__} beside an array on the device: send it there, too, by plan.to_device(mask)",
        InputError,
    )
    given = f"device array {array_name(tuple(array.shape), array.dtype)}"
    check(
        tuple(array.shape) == shape and array.dtype == dtype,
        f"{given}: the plan is for {array_name(shape, dtype)}; make one of that by plan.to_device(x)",
        InputError,
    )
    view = array._buffer_view
    check(
        array._device is executable.hal_device and view.byte_length == dtype.itemsize * math.prod(shape),
        f"{given}: it is not on the plan's device; make it by plan.to_device(x)",
        InputError,
    )
    return rt.HalBufferView(view.get_buffer(), memory, element_code(ElementType.of(dtype)))


def _wrapped(executable: Executable, view: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    whole = rt.HalBufferView(view.get_buffer(), shape, element_code(ElementType.of(dtype)))
    return rt.DeviceArray(executable.hal_device, whole, implicit_host_transfer=True, override_dtype=dtype)
