"""Reductions of NumPy arrays through IREE, laid out over workgroups, subgroups and lanes as a tuning says.

>>> import numpy as np
>>> from iree_reduce_plugin import reduce
>>> reduce(np.ones((4, 4096), "f4")).tolist()
[4096.0, 4096.0, 4096.0, 4096.0]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import CompileError, CompileTimeout, DeviceError, InputError, ReduceError, TuningError

# These two share their names with their modules: bound here, so that a later import of the module can't take the name.
from .reference import reference
from .tuning import Tuning
from .verify import verify

if TYPE_CHECKING:
    from .api import reduce
    from .plan import Plan, compile

__version__ = "0.1.0"

__all__ = [
    "CompileError",
    "CompileTimeout",
    "DeviceError",
    "InputError",
    "Plan",
    "ReduceError",
    "Tuning",
    "TuningError",
    "__version__",
    "compile",
    "reduce",
    "reference",
    "verify",
]

_LAZY = {"reduce": "api", "Plan": "plan", "compile": "plan"}  # these import IREE's runtime, which the compiler's process never needs


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
