"""The reductions: for each, NumPy's ufunc (the reference), MLIR's combining op, and the identity it starts from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .element_types import ElementType
from .errors import InputError


@dataclass(frozen=True)
class Op:
    """A reduction by one associative operation.

    `widens`: whether NumPy accumulates and returns small integers in 64 bits (sum and prod do, max and min keep the type).
    """

    name: str
    ufunc: np.ufunc
    float_op: str
    int_op: str
    widens: bool
    default_initial: int | None  # what NumPy joins to the result when `initial` is not given; None where an empty reduction is an error

    def mlir(self, element: ElementType) -> str:
        """The name of the op that combines two values of `element`, e.g. `arith.addf`."""
        return self.float_op if element.is_float else self.int_op

    def identity(self, element: ElementType) -> Any:
        """The value x with `x op y == y` for every y, bit for bit: -0.0 for a float sum, as a NumPy scalar of `element`."""
        if self.name == "sum":
            value: Any = -0.0 if element.is_float else 0
        elif self.name == "prod":
            value = 1
        elif element.is_float:
            value = -np.inf if self.name == "max" else np.inf
        else:
            limits = np.iinfo(element.numpy)
            value = limits.min if self.name == "max" else limits.max
        return element.numpy.type(value)


# max and min propagate NaN and order -0 below +0 (MLIR's maximumf / minimumf), as numpy.maximum does except for the zeros' order.
OPS = {
    op.name: op
    for op in (
        Op("sum", np.add, "arith.addf", "arith.addi", True, 0),
        Op("prod", np.multiply, "arith.mulf", "arith.muli", True, 1),
        Op("max", np.maximum, "arith.maximumf", "arith.maxsi", False, None),
        Op("min", np.minimum, "arith.minimumf", "arith.minsi", False, None),
    )
}


def find_op(name: str) -> Op:
    if not isinstance(name, str) or name not in OPS:
        raise InputError(f"op {name!r} is not known: use one of {', '.join(OPS)}")
    return OPS[name]
