"""The forms that ops take where a mask leaves out elements: what divides by K otherwise divides by the number of those that count."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from .element_types import ElementType
from .expressions import Value, Values, maximum, sqrt, where
from .op import I64, About, Op, Types, as_float
from .ops_of_several import OPS_OF_SEVERAL


def _and_count(element: ElementType) -> Types:
    return element, I64


def _counted(x: Value) -> Values:
    return x, Value(x.backend.constant(1, I64, x.raw), I64, x.backend)


def _add_both(a: Values, b: Values) -> Values:
    return a[0] + b[0], a[1] + b[1]


def _nothing(types: Types) -> tuple[Any, ...]:
    """+0.0, which NumPy joins to every sum."""
    return (0.0, 0)


def _mean(accumulators: Values, about: About) -> Value:
    total, count = accumulators
    return _divided(total, count.cast(total.element))


def _variance(accumulators: Values, about: About) -> Value:
    """Of no more elements than `ddof` a division by 0, as NumPy's."""
    count, _, squares = accumulators
    return _divided(squares, maximum(count - about.ddof, 0)) if about.ddof else _divided(squares, count)


def _deviation(accumulators: Values, about: About) -> Value:
    return sqrt(_variance(accumulators, about))


def _divided(a: Value, b: Value) -> Value:
    """a / b; Vulkan leaves a division by 0 to its drivers, so it is a product: infinite, or NaN of 0."""
    return where(b == 0, a * np.inf, a / where(b == 0, 1, b))


_BY_NAME = {op.name: op for op in OPS_OF_SEVERAL}
OPS_MASKED = {
    "mean": Op(
        "mean where", "numpy.mean", _add_both, _nothing, _counted, finish=_mean,
        accumulators=_and_count, loop_type=as_float, takes_integers=False, takes_initial=False, counts_beside_sum=True, plain="mean",
    ),
    "var": dataclasses.replace(_BY_NAME["var"], name="var where", finish=_variance, plain="var"),
    "std": dataclasses.replace(_BY_NAME["std"], name="std where", finish=_deviation, plain="std"),
}  # fmt: skip
