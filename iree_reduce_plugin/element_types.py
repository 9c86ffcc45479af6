"""The element types of this package: one name (MLIR's) each, its NumPy dtype, and how arithmetic on it is done."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import InputError


@dataclass(frozen=True)
class ElementType:
    """An element type, named as in MLIR: `f32`, `bf16`, `i64`, ...

    >>> ElementType.of("float32"), ElementType.of("f32").bytes
    (ElementType(name='f32'), 4)
    """

    name: str

    @property
    def is_float(self) -> bool:
        return self.name not in ("i32", "i64")

    @property
    def bits(self) -> int:
        return int(self.name.lstrip("bfi"))

    @property
    def bytes(self) -> int:
        return self.bits // 8

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype; bf16 is `ml_dtypes.bfloat16`."""
        return _dtype(self.name)

    @property
    def accumulator(self) -> ElementType:
        """The type that results of this one are built in: f32 for the 16-bit floats, itself for the others.

        Exact for max and min, which have no native instruction for bf16 anywhere (and IREE's CPU code can't take f16's).
        """
        return ElementType("f32") if self.name in ("f16", "bf16") else self

    @staticmethod
    def of(dtype: object) -> ElementType:
        """From an MLIR name (`f32`), or anything `numpy.dtype` takes (`np.float32`, `"f4"`, `"float32"`)."""
        if isinstance(dtype, ElementType):
            return dtype
        if isinstance(dtype, str) and dtype in NAMES:
            return ElementType(dtype)
        try:
            given = _dtype("bf16") if dtype == "bfloat16" else np.dtype(dtype)  # type: ignore[call-overload]
        except TypeError as e:
            raise InputError(f"type {dtype!r} is not known: use one of {', '.join(NAMES)}, or a NumPy dtype of the same") from e
        for name, numpy_name in NAMES.items():
            if given.name == numpy_name:
                return ElementType(name)
        yet, remedy = (" yet", ", e.g. x.astype('i4')") if given.kind in "bui" else ("", "")
        raise InputError(f"type {given.name!r} is not supported{yet}: use one of {', '.join(NAMES)}{remedy}")


NAMES = {"f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16", "i32": "int32", "i64": "int64"}


@functools.cache
def _dtype(name: str) -> np.dtype[Any]:
    if name == "bf16":
        import ml_dtypes  # only where bf16 is really used: the import takes milliseconds

        brain: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return brain
    return np.dtype(NAMES[name])
