"""a * b + c with one rounding, on NumPy arrays of f32 and f64: NumPy has no such function.

f32: the product of two of them is exact in f64, and a sum that is rounded to odd there can be rounded again without harm.
f64: the product and its error are two f64 (Dekker), and the three terms add up to one rounding by way of rounding to odd (Boldo and
Melquiond, "Emulation of FMA and correctly rounded sums", 2008). Where exponents could leave the range on the way, exact rational numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

_SAFE = 2.0**400  # magnitudes from 1 / _SAFE to _SAFE neither overflow nor lose bits on the way
_SPLIT = 2.0**27 + 1


def exact_fma(a: Any, b: Any, c: Any) -> Array:
    """For arrays that broadcast, of one type, f32 or f64.

    >>> x = np.float32(1 + 2**-12)
    >>> float(exact_fma(x, x, np.float32(-1))), float(x * x - np.float32(1))
    (0.0004883408546447754, 0.00048828125)
    """
    a, b, c = np.broadcast_arrays(a, b, c)
    with np.errstate(all="ignore"):
        if c.dtype == np.float32:
            wide = [x.astype(np.float64) for x in (a, b, c)]
            return _add_to_odd(wide[0] * wide[1], wide[2]).astype(np.float32)
        return _fma64(a, b, c)


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum and its error, exactly."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _add_to_odd(a: Array, b: Array) -> Array:
    """The sum rounded to odd: where it is inexact, that one of its two neighbours whose last bit is 1."""
    total, error = _two_sum(a, b)
    bits = np.asarray(total).view(np.int64)
    move = np.isfinite(total) & (error != 0) & (bits & 1 == 0)
    away = (error > 0) == (total > 0)
    return (bits + np.where(move, np.where(away, 1, -1), 0)).view(np.float64)


def _fma64(a: Array, b: Array, c: Array) -> Array:
    product = a * b
    result = product + c  # right where a factor is 0, infinite or NaN
    result = np.where(np.isfinite(a) & np.isfinite(b) & ~np.isfinite(c), c, result)  # a finite product may look infinite
    usual = np.isfinite(a) & np.isfinite(b) & np.isfinite(c) & (a != 0) & (b != 0)
    safe = usual & _is_safe(a) & _is_safe(b) & _is_safe(c)
    result = np.where(safe, _by_odd_rounding(np.where(safe, a, 1), np.where(safe, b, 1), np.where(safe, c, 0)), result)
    far = usual & ~safe & (np.frexp(a)[1] + np.frexp(b)[1] > 1030)  # beyond what any c brings back
    result = np.where(far, np.copysign(np.inf, a) * np.copysign(1, b), result)
    rest = usual & ~safe & ~far
    if rest.any():
        result[rest] = [_by_fractions(*terms) for terms in zip(a[rest].tolist(), b[rest].tolist(), c[rest].tolist(), strict=True)]
    return np.asarray(result)


def _is_safe(x: Array) -> Any:
    size = np.abs(x)
    return (x == 0) | ((size > 1 / _SAFE) & (size < _SAFE))


def _by_odd_rounding(a: Array, b: Array, c: Array) -> Array:
    high, low = _product(a, b)
    upper, lower = _two_sum(c, low)
    total, error = _two_sum(high, upper)
    return total + _add_to_odd(error, lower)


def _product(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded product and its error, exactly."""
    product = a * b
    (a1, a2), (b1, b2) = _halves(a), _halves(b)
    return product, a2 * b2 - (((product - a1 * b1) - a2 * b1) - a1 * b2)


def _halves(x: Array) -> tuple[Array, Array]:
    scaled = x * _SPLIT
    upper = scaled - (scaled - x)
    return upper, x - upper


def _by_fractions(a: float, b: float, c: float) -> float:
    from fractions import Fraction  # only here: an exception, and the import takes milliseconds

    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return 0.0
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return np.inf if exact > 0 else -np.inf
