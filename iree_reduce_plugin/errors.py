"""The exceptions of the package, and `check`, which raises one with the numbers in it.

Everything raised on purpose derives from `ReduceError`, so one `except` covers the package; each class also derives from the
built-in that NumPy users expect. Errors of axes and shapes are NumPy's own (`numpy.exceptions.AxisError`, `ValueError`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class ReduceError(Exception):
    """The root of every error that the package raises on purpose."""


class InputError(ReduceError, ValueError):
    """An array, shape, type, op or target name that can't be used, or that is not supported yet."""


class InputTypeError(InputError, TypeError):
    """An argument or a type that NumPy's own function refuses with a TypeError."""


class TuningError(ReduceError, ValueError):
    """A tuning that can't be read, contradicts itself, or doesn't fit the problem or the target."""


class CompileError(ReduceError, RuntimeError):
    """IREE refused the module, crashed on it, or did not take our schedule. `log` is the path of everything it printed."""

    def __init__(self, message: str, log: Path | None = None):
        super().__init__(message if log is None else f"{message} (full log: {log})")
        self.log = log


class CompileTimeout(CompileError):
    """The compiler ran past the time limit and was ended, with all its processes."""


class DeviceError(ReduceError, RuntimeError):
    """The device that was asked for is absent, or can't run the module."""


def check(condition: bool, message: str, error: type[ReduceError] = TuningError) -> None:
    """Raises `error(message)` unless `condition` holds. The message names the field, the value, the limit and the remedy."""
    if not condition:
        raise error(message)
