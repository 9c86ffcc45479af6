"""Runs a compiled module on NumPy arrays with as little between the two as IREE allows.

On the CPU the array is read where it lies. It is copied first where it is not C-contiguous, where it is read-only (IREE imports
writeable memory only), and where its address is not aligned as the kernel needs. GPUs get a copy in their own memory.
"""

from __future__ import annotations

import math
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import iree.runtime as rt
import numpy as np

from .devices import Device
from .drivers import OpenDevice, instance, open_driver
from .element_types import ElementType
from .errors import DeviceError, InputError

Array = np.ndarray[Any, np.dtype[Any]]

_LIST, _VIEW = rt.VmVariantList, rt.HalBufferView
STOCK_ALIGNMENT = 64  # bytes; what IREE's own CPU code assumes of its buffers

_HOST = int(rt.MemoryType.HOST_LOCAL) | int(rt.MemoryType.DEVICE_VISIBLE)
_LOCAL = int(rt.MemoryType.DEVICE_LOCAL)
_USAGE = int(rt.BufferUsage.DEFAULT) | int(rt.BufferUsage.MAPPING)
# The types of the kernel's storage: MLIR's integers have no sign; a bool and an 8-bit float are bytes.
_ELEMENTS = {
    "f32": rt.HalElementType.FLOAT_32,
    "f64": rt.HalElementType.FLOAT_64,
    "f16": rt.HalElementType.FLOAT_16,
    "bf16": rt.HalElementType.BFLOAT_16,
    **dict.fromkeys(("bool", "f8E4M3FN", "f8E4M3FNUZ", "f8E5M2"), rt.HalElementType.INT_8),
    **{f"{sign}{bits}": getattr(rt.HalElementType, f"INT_{bits}") for sign in ("i", "ui") for bits in (8, 16, 32, 64)},
}


def element_code(element: ElementType) -> int:
    """IREE's code of the element's storage."""
    return int(_ELEMENTS[element.name])


_IN_BUFFERS = {f"{kind}{bits}" for kind in ("float", "int", "uint") for bits in (8, 16, 32, 64)}


class Executable:
    """A module whose function `reduce` takes arrays of one shape, on one device. Calls from several threads take turns.

    inputs: the types of the arrays that it takes; results: of those that it gives.

    alignment: bytes to which the kernel needs its inputs aligned: STOCK_ALIGNMENT, or 1 where each need only be aligned as its elements.
    """

    def __init__(
        self,
        vmfb: bytes,
        device: Device,
        shape: tuple[int, ...],
        inputs: tuple[ElementType, ...],
        result_shape: tuple[int, ...],
        results: tuple[ElementType, ...],
        alignment: int = STOCK_ALIGNMENT,
    ):
        self.device = device
        self._shape, self._inputs = shape, inputs
        self._dtypes = [element.numpy for element in inputs]
        # Looked up here, not by each call: what the array is taken for, where it is not that already.
        self._views = [None if _raw(element) == element.numpy else _raw(element) for element in inputs]
        self._vmfb = vmfb
        self._nbytes = sum(element.bytes for element in inputs) * math.prod(shape)
        self._result_shape, self._results = result_shape, tuple((one.numpy, _raw(one)) for one in results)
        self._alignment = alignment
        self._lock = threading.Lock()
        self._driver = ""
        _executables.add(self)
        self._load(device.driver_for(self._nbytes))

    def __call__(self, *arrays: Array) -> list[Array]:
        """The results for arrays of the shape and the types the module was compiled for, as arrays of their own.

        Raises InputError for another shape or type, DeviceError where the device fails.
        """
        for i, x in enumerate(arrays):
            if x.shape != self._shape or x.dtype != self._dtypes[i]:
                raise InputError(f"array {x.shape} {x.dtype}: the kernel takes {self._shape} {self._dtypes[i]}")
        with self._lock:
            self._reload()
            try:
                return self._invoke(arrays)
            except (RuntimeError, ValueError) as e:
                raise DeviceError(f"device {self.device.name} failed: {e}") from e

    def on_device(self, views: Sequence[Any]) -> list[Any]:
        """As a call, with buffer views on the device: of the kernel's inputs, and of its results."""
        with self._lock:
            self._reload()
            inputs, outputs = rt.VmVariantList(len(views)), rt.VmVariantList(1)
            for view in views:
                inputs.push_ref(view)
            try:
                self._context.invoke(self._function, inputs, outputs)
            except (RuntimeError, ValueError) as e:
                raise DeviceError(f"device {self.device.name} failed: {e}") from e
            return [outputs.get_as_object(i, rt.HalBufferView) for i in range(len(self._results))]

    def send(self, x: Array) -> Any:
        """A copy of the array on the device, as a buffer view."""
        memory = _HOST if self.device.is_local else _LOCAL
        with self._lock:
            self._reload()
            return self._opened.allocator.allocate_buffer_copy(
                memory, _USAGE, self._opened.device, x, element_code(ElementType.of(x.dtype))
            )

    def fetch(self, view: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """A copy of what the buffer view holds."""
        return _Mapped(shape, dtype, dtype)(view) if self.device.is_local else _Staged(self._opened, shape, dtype, dtype)(view)

    @property
    def hal_device(self) -> Any:
        """IREE's device in use."""
        return self._opened.device

    def _reload(self) -> None:
        driver = self.device.driver_for(self._nbytes)
        if driver != self._driver:  # in a forked child
            self._load(driver)

    def _load(self, driver: str) -> None:
        opened = self._opened = open_driver(driver, self.device.device_id)
        try:
            module = rt.VmModule.copy_buffer(instance(), self._vmfb)
            self._context = rt.VmContext(instance(), modules=[opened.hal_module, module])
            self._function = module.lookup_function("reduce")
        except (RuntimeError, ValueError) as e:
            raise DeviceError(f"device {self.device.name} can't load the module: {e}") from e
        self._driver = driver
        self._send = [self._sender(opened, element) for element in self._inputs]
        self._fetch: list[Callable[[Any], Array]] = [
            _Mapped(self._result_shape, raw, dtype) if self.device.is_local else _Staged(opened, self._result_shape, raw, dtype)
            for dtype, raw in self._results
        ]

    def _invoke(self, arrays: tuple[Array, ...]) -> list[Array]:
        # A buffer view that outlives its device crashes the process at its end: none is left behind in a name.
        inputs, outputs = _LIST(1), _LIST(1)
        # Copies stay alive in this frame while the kernel reads them.
        sent = [x if x.flags.c_contiguous else np.ascontiguousarray(x) for x in arrays]
        for i, x in enumerate(sent):
            raw = self._views[i]
            inputs.push_ref(self._send[i](x if raw is None else x.view(raw)))
        self._context.invoke(self._function, inputs, outputs)
        return [fetch(outputs.get_as_object(i, _VIEW)) for i, fetch in enumerate(self._fetch)]

    def _sender(self, opened: OpenDevice, input_type: ElementType) -> Callable[[Array], Any]:
        """What brings a contiguous array of that type to the device, as a buffer view."""
        allocator, device, element = opened.allocator, opened.device, _ELEMENTS[input_type.name]
        shape, code, alignment = self._shape, int(element), self._alignment
        view, import_host, copy = rt.HalBufferView, allocator.import_host_allocation, allocator.allocate_buffer_copy

        def send_any(x: Array) -> Any:
            if x.flags.behaved:  # aligned to its elements, and writeable
                return view(import_host(x, _HOST, _USAGE), shape, code)
            return copy(_HOST, _USAGE, device, x, element)

        def send_aligned(x: Array) -> Any:
            if x.flags.behaved and x.__array_interface__["data"][0] % alignment == 0:
                return view(import_host(x, _HOST, _USAGE), shape, code)
            return copy(_HOST, _USAGE, device, x, element)

        def send_away(x: Array) -> Any:
            return copy(_LOCAL, _USAGE, device, x, element)

        if not self.device.is_local:
            return send_away
        return send_any if alignment <= input_type.bytes else send_aligned


def _after_fork() -> None:
    """In the child: another thread's lock stays taken for ever, and its context is in the middle of a call."""
    for executable in _executables:
        executable._lock = threading.Lock()
        executable._driver = ""


_executables: weakref.WeakSet[Executable] = weakref.WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class _Mapped:
    """Copies a result out of memory that the host sees. raw: what it lies there as; dtype: what it is."""

    def __init__(self, shape: tuple[int, ...], raw: np.dtype[Any], dtype: np.dtype[Any]):
        self._shape, self._raw, self._dtype = shape, raw, dtype

    def __call__(self, view: Any) -> Array:
        result: Array = view.map().asarray(self._shape, self._raw).copy()
        return result if self._raw == self._dtype else result.view(self._dtype)


class _Staged:
    """Copies a result out of a device's own memory, through a buffer that both sides see.

    `DeviceArray.to_host` imports the host's memory instead, which Vulkan takes at the page's alignment only.
    """

    def __init__(self, opened: OpenDevice, shape: tuple[int, ...], raw: np.dtype[Any], dtype: np.dtype[Any]):
        self._opened, self._shape, self._raw, self._dtype = opened, shape, raw, dtype
        self._nbytes = dtype.itemsize * math.prod(shape)

    def __call__(self, view: Any) -> Array:
        device = self._opened.device
        staging = self._opened.allocator.allocate_buffer(_HOST, _USAGE, self._nbytes)
        semaphore = device.create_semaphore(0)
        done = rt.HalFence.create_at(semaphore, 1)
        device.queue_copy(view.get_buffer(), staging, [], done)
        done.wait()
        result: Array = staging.map().asarray(self._shape, self._raw).copy()
        return result.view(self._dtype)


def _raw(element: ElementType) -> np.dtype[Any]:
    """The type under which NumPy's buffers carry the element: a byte for bool, and those of `ml_dtypes` have no code of their own there."""
    return element.numpy if element.numpy.name in _IN_BUFFERS else np.dtype(f"u{element.bytes}")
