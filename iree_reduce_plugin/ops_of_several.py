"""The reductions of several accumulators.

argmax, argmin: the value and its index; of equal ones, and of zeros of either sign, the first; NaN before all others, as NumPy's
argmax_last, argmin_last: of equal ones, and of NaN, the last
ptp: the highest and the lowest
logsumexp: the highest, m, and the sum of exp(x - m), which a higher m scales (Milakov and Gimelshein, "Online normalizer calculation for
    softmax", 2018): nothing overflows
var, std: the count, the mean and the sum of squared distances from it, of which two are merged by the formula of Chan, Golub and LeVeque
    ("Updating formulae and a pairwise algorithm for computing sample variances", 1979): one pass, and nothing cancels
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .element_types import ElementType
from .expressions import Value, Values, exp, fma, isnan, log, maximum, minimum, sqrt, where
from .op import I64, About, Op, Types, as_float


def _and_index(element: ElementType) -> Types:
    return element, I64


def _indexed(x: Value, column: Value) -> Values:
    return x, column


def _better(higher: Value, preferred: Value, a: Values, b: Values) -> Values:
    """`b` where it is `higher`, or equal to `a` and of the `preferred` index."""
    (x, i), (y, j) = a, b
    better = (isnan(y) & ~isnan(x)) | (higher & ~isnan(x))
    equal = (x == y) | (isnan(x) & isnan(y))
    taken = better | (equal & preferred)
    return where(taken, y, x), where(taken, j, i)


def _argmax(a: Values, b: Values) -> Values:
    return _better(b[0] > a[0], b[1] < a[1], a, b)


def _argmin(a: Values, b: Values) -> Values:
    return _better(b[0] < a[0], b[1] < a[1], a, b)


def _argmax_last(a: Values, b: Values) -> Values:
    return _better(b[0] > a[0], b[1] > a[1], a, b)


def _argmin_last(a: Values, b: Values) -> Values:
    return _better(b[0] < a[0], b[1] > a[1], a, b)


def _lowest(element: ElementType) -> Any:
    return -np.inf if element.is_float else element.limits[0]


def _highest(element: ElementType) -> Any:
    return np.inf if element.is_float else element.limits[1]


def _below_all(types: Types) -> tuple[Any, ...]:
    return _lowest(types[0]), I64.limits[1]


def _above_all(types: Types) -> tuple[Any, ...]:
    return _highest(types[0]), I64.limits[1]


def _below_all_last(types: Types) -> tuple[Any, ...]:
    return _lowest(types[0]), -1


def _above_all_last(types: Types) -> tuple[Any, ...]:
    return _highest(types[0]), -1


def _index(accumulators: Values, about: About) -> Value:
    return accumulators[1]


def _to_i64(element: ElementType) -> ElementType:
    return I64


def _two(element: ElementType) -> Types:
    return element, element


def _twice(x: Value) -> Values:
    return x, x


def _extremes(a: Values, b: Values) -> Values:
    return maximum(a[0], b[0]), minimum(a[1], b[1])


def _no_extremes(types: Types) -> tuple[Any, ...]:
    return _lowest(types[0]), _highest(types[0])


def _distance(accumulators: Values, about: About) -> Value:
    x, y = accumulators
    return _from_itself(x) if about.count == 1 and x.element.is_float else x - y


def _from_itself(x: Value) -> Value:
    """x - x, NaN of NaN and infinities: written out it would be 0 to Vulkan's drivers."""
    return where(abs(x) < np.inf, x.constant(0), x.constant(np.nan))


def _scaled(x: Value) -> Values:
    return x, x.constant(1)


def _add_scaled(a: Values, b: Values) -> Values:
    """exp(-inf - -inf) and exp(inf - inf) would be NaN, where both are equal and nothing is to be scaled."""
    (m, s), (n, r) = a, b
    top = maximum(m, n)
    s = s * where(m == top, 1, exp(m - top))
    return top, s + r * where(n == top, 1, exp(n - top))


def _no_terms(types: Types) -> tuple[Any, ...]:
    return -np.inf, 0.0


def _unscaled(accumulators: Values, about: About) -> Value:
    return accumulators[0] + log(accumulators[1])


def _three(element: ElementType) -> Types:
    return element, element, element


def _counted(x: Value) -> Values:
    return x.constant(1), x, _from_itself(x)


def _merge(a: Values, b: Values) -> Values:
    """n = na + nb; the mean moves by d nb / n, d being the distance of the two; the squares add up to M2a + M2b + d d na nb / n."""
    (na, mean, squares), (nb, other, more) = a, b
    count, distance = na + nb, other - mean
    share = nb / count
    merged = count, fma(distance, share, mean), fma(distance * distance, na * share, squares + more)
    return tuple(where(nb == 0, x, where(na == 0, y, z)) for x, y, z in zip(a, b, merged, strict=True))


def _no_elements(types: Types) -> tuple[Any, ...]:
    return 0.0, 0.0, 0.0


def _variance(accumulators: Values, about: About) -> Value:
    """Of no elements 0 / 0, and of no more than `ddof` a division by 0, as NumPy's: infinite, or NaN of 0. Vulkan leaves that to its
    drivers, so it is a product. A division by 1 is left out: IREE folds it, and then crashes on the epilogue of which nothing is left."""
    divisor, squares = max(about.count - about.ddof, 0), accumulators[2]
    return squares if divisor == 1 else squares / divisor if divisor else squares * np.inf


def _deviation(accumulators: Values, about: About) -> Value:
    return sqrt(_variance(accumulators, about))


_BARE: dict[str, Any] = {"takes_dtype": False, "takes_initial": False}
_ARG: dict[str, Any] = {
    "prepare": _indexed, "accumulators": _and_index, "finish": _index, "result": _to_i64, "takes_index": True, "empty": "error",
    "takes_where": False,
}  # fmt: skip
_MOMENTS: dict[str, Any] = {
    "combine": _merge, "identity": _no_elements, "prepare": _counted, "accumulators": _three, "loop_type": as_float,
    "takes_integers": False, "takes_initial": False, "takes_ddof": True,
}  # fmt: skip
OPS_OF_SEVERAL = (
    Op("argmax", "numpy.argmax", _argmax, _below_all, **_ARG, **_BARE),
    Op("argmin", "numpy.argmin", _argmin, _above_all, **_ARG, **_BARE),
    Op("argmax_last", "numpy.argmax of the reverse", _argmax_last, _below_all_last, **_ARG, **_BARE),
    Op("argmin_last", "numpy.argmin of the reverse", _argmin_last, _above_all_last, **_ARG, **_BARE),
    Op(
        "ptp", "numpy.ptp", _extremes, _no_extremes, _twice,
        accumulators=_two, finish=_distance, empty="error", takes_bools=False, takes_where=False, **_BARE,
    ),
    Op(
        "logsumexp", "numpy.logaddexp.reduce", _add_scaled, _no_terms, _scaled,
        accumulators=_two, finish=_unscaled, loop_type=as_float, takes_integers=False, takes_initial=False,
    ),
    Op("var", "numpy.var", finish=_variance, **_MOMENTS),
    Op("std", "numpy.std", finish=_deviation, **_MOMENTS),
)  # fmt: skip
