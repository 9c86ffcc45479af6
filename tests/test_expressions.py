"""Expressions: fma against the C library's, 8-bit floats against ml_dtypes, MLIR against NumPy by compiling; what is refused."""

from __future__ import annotations

import ctypes
import ctypes.util

import numpy as np
import pytest

from iree_reduce_plugin.element_types import ElementType
from iree_reduce_plugin.errors import InputError
from iree_reduce_plugin.exact_fma import exact_fma
from iree_reduce_plugin.expressions import exp, fma, fmax, fmin, isnan, log, maximum, minimum, sqrt, where
from iree_reduce_plugin.expressions_numpy import array_value
from iree_reduce_plugin.expressions_trace import Trace
from iree_reduce_plugin.small_floats import FORMATS, decoded, encoded

F32 = ElementType("f32")


def random_bits(rng, dtype, n):
    bits = np.dtype(f"u{np.dtype(dtype).itemsize}")
    return rng.integers(0, np.iinfo(bits).max, n, bits, endpoint=True).view(dtype)


def terms(dtype, kind, n=20_000):
    """Triples of numbers: any bits, sums that nearly cancel, or lie next to halfway between two numbers, results that underflow, and the
    special ones in every combination."""
    rng, info = np.random.default_rng(0), np.finfo(dtype)
    if kind == "any bits":
        return [random_bits(rng, dtype, n) for _ in range(3)]
    if kind == "special":
        some = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, info.max, -info.max, info.tiny, info.smallest_subnormal], dtype)
        return [axis.ravel() for axis in np.meshgrid(some, some, some)]
    a, b, c = (rng.standard_normal(n).astype(dtype) for _ in range(3))
    if kind == "cancelling":
        return a, b, -(a * b) * (1 + rng.integers(-2, 3, n) * info.eps).astype(dtype)
    if kind == "nearly halfway":  # by a term so small that a sum of twice the digits does not hold it
        half, odd = 2.0 ** -(info.nmant + 1), 1 + (2 * rng.integers(0, 1000, n) + 1) * info.eps
        small = 2.0**-15 if dtype == "f4" else 2.0**-30
        return [np.asarray(x).astype(dtype) for x in (np.full(n, (1 + small) * half), rng.choice([1 - small, 1 + small], n), odd)]
    low = info.minexp
    with np.errstate(all="ignore"):
        return [(x * 2.0 ** rng.integers(e - 20, e + 5, n)).astype(dtype) for x, e in ((a, low / 2), (b, low / 2), (c, low - 20))]


@pytest.mark.parametrize("kind", ["any bits", "cancelling", "nearly halfway", "underflowing", "special"])
@pytest.mark.parametrize(("dtype", "name", "c_type"), [("f4", "fmaf", ctypes.c_float), ("f8", "fma", ctypes.c_double)])
def test_fma_is_the_c_library_s(dtype, name, c_type, kind):
    library = ctypes.util.find_library("m")
    if library is None:
        pytest.skip("there is no C library of mathematics to compare with")
    function = getattr(ctypes.CDLL(library), name)
    function.restype, function.argtypes = c_type, [c_type] * 3
    a, b, c = terms(dtype, kind)
    found = exact_fma(a, b, c)
    expected = np.array([function(*given) for given in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)], dtype)
    bits = f"u{expected.itemsize}"
    wrong = (found.view(bits) != expected.view(bits)) & ~(np.isnan(found) & np.isnan(expected))
    assert not wrong.any(), [(x[wrong][0], found[wrong][0], expected[wrong][0]) for x in (a, b, c)]
    with np.errstate(all="ignore"):
        assert kind == "special" or (a * b + c != expected).any()  # two roundings would show


@pytest.mark.parametrize("name", FORMATS)
def test_8_bit_floats_are_those_of_ml_dtypes(name):
    element = ElementType(name)
    codes = np.arange(256, dtype="u4")
    upper = np.arange(1 << 16, dtype="u4") << 16
    numbers = np.concatenate([upper + low for low in (0, 1, 0x7FFF, 0x8000, 0xFFFF)]).view("f4")
    with np.errstate(all="ignore"):
        floats, expected = (
            decoded(array_value(codes, ElementType("ui32")), element).raw,
            codes.astype("u1").view(element.numpy).astype("f4"),
        )
        assert ((floats.view("u4") == expected.view("u4")) | (np.isnan(floats) & np.isnan(expected))).all()
        found, wanted = encoded(array_value(numbers, F32), element).raw.astype("u1"), numbers.astype(element.numpy)
        same = found == wanted.view("u1")
        assert (same | (np.isnan(found.view(element.numpy)) & np.isnan(wanted))).all()


def number(x, name="f32"):
    return array_value(np.asarray(x), ElementType(name))


def test_what_the_functions_mean():
    nan = float("nan")
    a, b = number([1.0, nan, -0.0, 0.0]), number([nan, 1.0, 0.0, -0.0])
    with np.errstate(all="ignore"):
        assert np.isnan(maximum(a, b).raw).tolist() == [True, True, False, False]
        assert np.signbit(maximum(a, b).raw[2:]).tolist() == [False, False] and np.signbit(minimum(a, b).raw[2:]).tolist() == [True, True]
        assert fmax(a, b).raw.tolist()[:2] == [1, 1] and fmin(a, b).raw.tolist()[:2] == [1, 1]
        assert isnan(a).raw.tolist() == [False, True, False, False]
        assert (a == a).raw.tolist() == [True, False, True, True] and (a != a).raw.tolist() == [False, True, False, False]
        assert where(a > 0, a, 2.0).raw.tolist() == [1, 2, 2, 2]
        assert (1 - number([3.0])).raw.tolist() == [-2] and (1 / number([4.0])).raw.tolist() == [0.25]
        assert abs(-number([3.0])).raw.tolist() == [3] and sqrt(number([9.0])).raw.tolist() == [3]
        assert exp(log(number([1.0]))).raw.tolist() == [1]
    whole = number([5, -3], "i32")
    assert (~whole).raw.tolist() == [-6, 2] and (whole >> 1).raw.tolist() == [2, -2] and (whole & 4).raw.tolist() == [4, 4]
    assert fma(whole, whole, 1).raw.tolist() == [26, 10]
    assert (~number([True], "bool")).raw.tolist() == [False] and (~number([0], "ui8")).raw.tolist() == [255]
    assert number([2.5, -2.5]).cast("i32").raw.tolist() == [2, -2] and number([0.5, 0.0]).cast("bool").raw.tolist() == [True, False]
    assert number([1.0]).bitcast("i32").raw.tolist() == [0x3F800000]


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        (lambda x, n: x + n, "add: the operands are f32 and i32; cast one"),
        (lambda x, n: sqrt(n), "sqrt: i32 is not a float; cast it"),
        (lambda x, n: n / 2, "div: i32 is not a float"),
        (lambda x, n: x & 1, "and: f32 has no bits to combine"),
        (lambda x, n: where(n, x, x), "where: the condition is i32, not bool; compare it"),
        (lambda x, n: x if x > 0 else -x, r"not true or false while an expression is built: use where"),
        (lambda x, n: x.bitcast("f64"), "bitcast: f32 and f64 differ in size"),
        (lambda x, n: maximum(1.0, 2.0), "maximum: none of the operands is a value"),
    ],
)
def test_what_is_refused(expression, words):
    for x, n in ((number([1.0]), number([1], "i32")), (Trace.input("x", F32), Trace.input("n", ElementType("i32")))):
        with pytest.raises(InputError, match=words):
            expression(x, n)
