"""Python numbers beside values: which of them a type holds."""

from __future__ import annotations

from typing import Any

from .element_types import ElementType
from .errors import InputError, check


def check_constant(value: Any, element: ElementType) -> None:
    """InputError for a constant that is not a number, or not one that an integer type holds; floats round it, as NumPy's do."""
    kind = element.name
    number = value.item() if hasattr(value, "item") and getattr(value, "size", 1) == 1 else value
    check(
        isinstance(number, (bool, int, float)),
        f"constant {str(value)[:40]!r} is not a number: give one beside a value of {kind}",
        InputError,
    )
    if element.is_float:
        if isinstance(number, int) and abs(number) >= 2**1023:
            raise InputError(f"constant of {number.bit_length()} bits is too large for {kind}: give a smaller one, or infinity")
    elif element.is_bool:
        check(number in (0, 1), f"constant {number!r} beside a bool: give True or False, or cast the value, e.g. x.cast('i32')", InputError)
    else:
        low, high = element.limits
        check(
            not isinstance(number, float),
            f"constant {number!r} beside integers of {kind}: cast the value first, e.g. x.cast('f64'), or give an integer",
            InputError,
        )
        inside = low <= number <= high
        check(inside, f"constant {number!r} is outside {kind}, {low} to {high}: cast the value first, e.g. x.cast('f64')", InputError)
