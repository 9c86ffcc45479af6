"""Words for a reader, that several parts of the package write."""

from __future__ import annotations

from typing import Any

import numpy as np


def counted(number: int, noun: str) -> str:
    """The number with its noun.

    >>> counted(1, "step"), counted(2, "step")
    ('1 step', '2 steps')
    """
    return f"{number} {noun}" + "s" * (number != 1)


def array_name(shape: tuple[int, ...], dtype: np.dtype[Any]) -> str:
    """An array's shape and type.

    >>> array_name((4, 4096), np.dtype("f4"))
    '4x4096 float32'
    """
    return f"{'x'.join(map(str, shape)) or '0-d'} {dtype.name}"
