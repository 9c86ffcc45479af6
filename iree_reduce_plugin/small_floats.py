"""The 8-bit floats, as integers: to f32 and back, in expressions, so that every target and the reference do the same.

IREE's own conversions differ by target: gfx942 has none for two of the three types, Vulkan none at all, and on the CPU one of the NaNs
of f8E4M3FN comes out as -480, and values just below the smallest normal number round to zero. What is here does as `ml_dtypes`.
"""

from __future__ import annotations

from dataclasses import dataclass

from .element_types import ElementType
from .expressions import Value, where

_UI32, _F32 = ElementType("ui32"), ElementType("f32")
_MANTISSA, _BIAS = 23, 127  # of f32
_INFINITY, _NAN = 0x7F800000, 0x7FC00000


@dataclass(frozen=True)
class Format:
    """mantissa: its bits. bias: of the exponent. highest: the code of the largest number.

    overflow, nan: the codes of what is larger, and of NaN, under the sign bit. signed: whether there is a -0, and NaN has a sign;
    the code of -0 is NaN's where there is none.
    """

    mantissa: int
    bias: int
    highest: int
    overflow: int
    nan: int
    signed: bool = True


FORMATS = {
    "f8E4M3FN": Format(3, 7, 0x7E, 0x7F, 0x7F),
    "f8E4M3FNUZ": Format(3, 8, 0x7F, 0x80, 0x80, signed=False),
    "f8E5M2": Format(2, 15, 0x7B, 0x7C, 0x7E),
}


def decoded(code: Value, element: ElementType) -> Value:
    """The f32 of a code, a byte in a ui32."""
    form = FORMATS[element.name]
    size, shift = code & 0x7F, _MANTISSA - form.mantissa
    normal = size * (1 << shift) + ((_BIAS - form.bias) << _MANTISSA)
    subnormal = (size.cast(_F32) * 2.0 ** (1 - form.bias - form.mantissa)).bitcast(_UI32)
    bits = where(size < (1 << form.mantissa), subnormal, normal)
    if not form.signed:
        return where(code == form.nan, _NAN, bits | (code & 0x80) * (1 << 24)).bitcast(_F32)
    if form.overflow != form.nan:
        bits = where(size == form.overflow, _INFINITY, bits)
        bits = where(size > form.overflow, _NAN, bits)
    else:
        bits = where(size == form.nan, _NAN, bits)
    return (bits | (code & 0x80) * (1 << 24)).bitcast(_F32)


def encoded(x: Value, element: ElementType) -> Value:
    """The code of an f32, rounded to nearest even, as a byte in a ui32."""
    form = FORMATS[element.name]
    bits = x.bitcast(_UI32)
    size, shift = bits & 0x7FFFFFFF, _MANTISSA - form.mantissa
    normal = ((size + ((1 << (shift - 1)) - 1) + ((size >> shift) & 1)) >> shift) - ((_BIAS - form.bias) << form.mantissa)
    # Added to a number whose last place is the smallest subnormal, it is rounded to that, and its last bits are the code.
    ruler = 2.0 ** (1 - form.bias - form.mantissa + _MANTISSA)
    subnormal = (size.bitcast(_F32) + ruler).bitcast(_UI32) - ((_BIAS + 1 - form.bias - form.mantissa + _MANTISSA) << _MANTISSA)
    code = where(size < ((_BIAS + 1 - form.bias) << _MANTISSA), subnormal, normal)
    code = where(size >= _INFINITY, form.overflow, where(code > form.highest, form.overflow, code))
    code = where(size > _INFINITY, form.nan, code)
    sign = (bits >> 24) & 0x80
    return code | (sign if form.signed else where((code == 0) | (code == form.nan), 0, sign))
