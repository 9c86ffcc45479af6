"""The element types of this package: one name (MLIR's) each, its NumPy dtype, and how arithmetic on it is done.

MLIR's integers have no sign, so `i8` is the signed one here and `ui8` the unsigned one; `bool` is stored in a byte. The names of
8-bit floats are MLIR's, in upper and lower case: `f8E4M3FN`, `f8E4M3FNUZ`, `f8E5M2`; where one is read, any case will do.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import InputError

NAMES = {
    "f32": "float32",
    "f64": "float64",
    "f16": "float16",
    "bf16": "bfloat16",
    "f8E4M3FN": "float8_e4m3fn",
    "f8E4M3FNUZ": "float8_e4m3fnuz",
    "f8E5M2": "float8_e5m2",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "ui8": "uint8",
    "ui16": "uint16",
    "ui32": "uint32",
    "ui64": "uint64",
    "bool": "bool",
}
_OF_NUMPY = {numpy_name: name for name, numpy_name in NAMES.items()}
_OF_LOWER = {name.lower(): name for name in NAMES}
_OF_ML_DTYPES = ("bf16", "f8E4M3FN", "f8E4M3FNUZ", "f8E5M2")


@dataclass(frozen=True)
class ElementType:
    """An element type, named as in MLIR: `f32`, `bf16`, `i64`, ...

    >>> ElementType.of("float32"), ElementType.of("f32").bytes
    (ElementType(name='f32'), 4)
    """

    name: str

    @property
    def is_float(self) -> bool:
        return self.name.startswith(("f", "bf"))

    @property
    def is_unsigned(self) -> bool:
        return self.name.startswith("u")

    @property
    def is_bool(self) -> bool:
        return self.name == "bool"

    @property
    def bits(self) -> int:
        """Of its storage: 8 for bool."""
        found = re.search("[0-9]+", self.name)
        return int(found.group()) if found else 8

    @property
    def bytes(self) -> int:
        return self.bits // 8

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype; bf16 and the 8-bit floats are those of `ml_dtypes`."""
        return _dtype(self.name)

    @property
    def limits(self) -> tuple[int, int]:
        """The lowest and the highest integer.

        >>> ElementType("ui8").limits, ElementType("bool").limits
        ((0, 255), (0, 1))
        """
        if self.is_bool:
            return 0, 1
        info = np.iinfo(self.numpy)
        return int(info.min), int(info.max)

    @property
    def accumulator(self) -> ElementType:
        """The type that this one is computed in: 32 bits of the same kind for all that are shorter, itself for the others.

        Exact for max and min. Neither the targets' arithmetic nor their moves between lanes go below 32 bits everywhere (IREE's CPU code
        can't take the maximum of f16, and nothing has bf16's). Booleans are 0 and 1.
        """
        if self.bits >= 32:
            return self
        return ElementType("f32" if self.is_float else "ui32" if self.is_unsigned else "i32")

    @staticmethod
    def of(dtype: object) -> ElementType:
        """From an MLIR name (`f32`, `ui8`), or anything `numpy.dtype` takes (`np.float32`, `"f4"`, `"float32"`).

        One name is both: `"i8"` is NumPy's here, 64 bits. In the text of a shape, `4x4096xi8`, names are MLIR's.

        >>> ElementType.of("i8").name, ElementType.of("i1").name, ElementType.of("f8e5m2").name
        ('i64', 'i8', 'f8E5M2')
        """
        if isinstance(dtype, ElementType):
            return dtype
        if isinstance(dtype, str) and dtype.lower() in _OF_LOWER and dtype != "i8":
            return ElementType(_OF_LOWER[dtype.lower()])
        if isinstance(dtype, str) and dtype in _OF_NUMPY:
            return ElementType(_OF_NUMPY[dtype])
        try:
            given = np.dtype(dtype)  # type: ignore[call-overload]
        except TypeError as e:
            raise InputError(f"type {dtype!r} is not known: use one of {', '.join(NAMES)}, or a NumPy dtype of the same") from e
        if given.name in _OF_NUMPY:
            return ElementType(_OF_NUMPY[given.name])
        raise InputError(f"type {given.name!r} is not supported: use one of {', '.join(NAMES)}")

    @staticmethod
    def named(name: str) -> ElementType | None:
        """The type of an MLIR name, in any case; None where there is none.

        >>> ElementType.named("i8"), ElementType.named("f8e4m3fn").numpy.name
        (ElementType(name='i8'), 'float8_e4m3fn')
        """
        found = _OF_LOWER.get(name.lower())
        return None if found is None else ElementType(found)


@functools.cache
def _dtype(name: str) -> np.dtype[Any]:
    if name in _OF_ML_DTYPES:
        import ml_dtypes  # only where one of its types is really used: the import takes milliseconds

        given: np.dtype[Any] = np.dtype(getattr(ml_dtypes, NAMES[name]))
        return given
    return np.dtype(NAMES[name])
