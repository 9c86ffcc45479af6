"""Scalar expressions, written once: the same Python function computes with NumPy's arrays and builds MLIR.

An op of this package is a few functions over `Value`s, e.g. `fma(x, x, total)`. With values of `expressions_numpy` they give the
reference; with those of `expressions_mlir` the body of a kernel; with those of `expressions_trace` they say what they are made of. So a
definition and its reference can't drift apart.

What each function means, on every backend:

- `+ - *` of integers wrap; of floats they round once, to nearest even. `/` and `sqrt` are of floats, and round once.
- `fma(a, b, c)` is a * b + c, rounded once.
- `minimum` and `maximum` give NaN where either is NaN, and take -0 for less than +0; `fmin` and `fmax` give the other where one is NaN.
- comparisons with NaN are false, `!=` is true. `& | ^` are of integers and bools, `~` too.
- `floor`, `ceil`, `trunc` and `rint` (halves to even) are exact.
- `exp`, `log` and the like are a mathematics library's, which differ by some units in the last place.
- a Python number beside a value is a constant of that value's type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from .constants import check_constant
from .element_types import ElementType
from .errors import InputError, InputTypeError, check

BOOL = ElementType("bool")
LIBRARY = ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tanh")  # functions of a mathematics library

Raw: TypeAlias = Any  # what a backend computes with: an array, an `ir.Value`, a `Node`
Number = int | float | bool
Operand: TypeAlias = "Value | Number"


class Backend(Protocol):
    """What a backend has to do. The element type is the operands', which all have the same."""

    def apply(self, name: str, operands: list[Raw], element: ElementType) -> Raw: ...

    def constant(self, value: Any, element: ElementType, like: Raw) -> Raw: ...

    def select(self, condition: Raw, a: Raw, b: Raw, element: ElementType) -> Raw: ...

    def cast(self, value: Raw, source: ElementType, target: ElementType) -> Raw: ...

    def bitcast(self, value: Raw, source: ElementType, target: ElementType) -> Raw: ...


@dataclass(frozen=True, eq=False)
class Value:
    """A scalar, or as many of them as the backend likes, of one element type."""

    raw: Raw
    element: ElementType
    backend: Backend

    def cast(self, element: ElementType | str) -> Value:
        """As another type: exact where it widens, else rounded to nearest even, or wrapped; to bool, whether it is not 0."""
        target = element if isinstance(element, ElementType) else ElementType(element)
        return self if target == self.element else Value(self.backend.cast(self.raw, self.element, target), target, self.backend)

    def bitcast(self, element: ElementType | str) -> Value:
        """The same bits as another type of that size."""
        target = element if isinstance(element, ElementType) else ElementType(element)
        check(target.bits == self.element.bits, f"bitcast: {self.element.name} and {target.name} differ in size; use cast", InputError)
        return Value(self.backend.bitcast(self.raw, self.element, target), target, self.backend)

    def constant(self, value: Any) -> Value:
        """A constant of this value's type. InputError for one that an integer type does not hold."""
        check_constant(value, self.element)
        return Value(self.backend.constant(value, self.element, self.raw), self.element, self.backend)

    def __add__(self, other: Operand) -> Value:
        return _apply("add", self, other)

    def __radd__(self, other: Operand) -> Value:
        return _apply("add", other, self)

    def __sub__(self, other: Operand) -> Value:
        return _apply("sub", self, other)

    def __rsub__(self, other: Operand) -> Value:
        return _apply("sub", other, self)

    def __mul__(self, other: Operand) -> Value:
        return _apply("mul", self, other)

    def __rmul__(self, other: Operand) -> Value:
        return _apply("mul", other, self)

    def __truediv__(self, other: Operand) -> Value:
        return _floats("div", self, other)

    def __rtruediv__(self, other: Operand) -> Value:
        return _floats("div", other, self)

    def __pow__(self, other: object) -> Value:
        check(type(other) is int and other == 2, f"** {other!r}: only the square is known; write a product", InputError)
        return self * self

    def __neg__(self) -> Value:
        return _apply("neg", self)

    def __abs__(self) -> Value:
        return self if self.element.is_unsigned or self.element.is_bool else _apply("abs", self)

    def __and__(self, other: Operand) -> Value:
        return _integers("and", self, other)

    def __or__(self, other: Operand) -> Value:
        return _integers("or", self, other)

    def __xor__(self, other: Operand) -> Value:
        return _integers("xor", self, other)

    def __invert__(self) -> Value:
        return self ^ (True if self.element.is_bool else self.element.limits[1] if self.element.is_unsigned else -1)

    def __rshift__(self, other: Operand) -> Value:
        return _integers("shr", self, other)

    def __eq__(self, other: object) -> Value:  # type: ignore[override]
        return _compare("eq", self, other)  # type: ignore[arg-type]

    def __ne__(self, other: object) -> Value:  # type: ignore[override]
        return _compare("ne", self, other)  # type: ignore[arg-type]

    def __lt__(self, other: Operand) -> Value:
        return _compare("lt", self, other)

    def __le__(self, other: Operand) -> Value:
        return _compare("le", self, other)

    def __gt__(self, other: Operand) -> Value:
        return _compare("gt", self, other)

    def __ge__(self, other: Operand) -> Value:
        return _compare("ge", self, other)

    def __bool__(self) -> bool:
        raise InputError(
            "a value is not true or false while an expression is built: use where(condition, a, b) of iree_reduce_plugin.expressions, "
            "and & | ~ for and, or, not"
        )

    __hash__ = object.__hash__


Values: TypeAlias = tuple[Value, ...]


def minimum(a: Operand, b: Operand) -> Value:
    return _apply("minimum", a, b)


def maximum(a: Operand, b: Operand) -> Value:
    return _apply("maximum", a, b)


def fmin(a: Operand, b: Operand) -> Value:
    return _ignoring_nan("minimum", a, b)


def fmax(a: Operand, b: Operand) -> Value:
    return _ignoring_nan("maximum", a, b)


def sqrt(x: Value) -> Value:
    return _floats("sqrt", x)


def exp(x: Value) -> Value:
    return _floats("exp", x)


def exp2(x: Value) -> Value:
    return _floats("exp2", x)


def expm1(x: Value) -> Value:
    return _floats("expm1", x)


def log(x: Value) -> Value:
    return _floats("log", x)


def log2(x: Value) -> Value:
    return _floats("log2", x)


def log10(x: Value) -> Value:
    return _floats("log10", x)


def log1p(x: Value) -> Value:
    return _floats("log1p", x)


def sin(x: Value) -> Value:
    return _floats("sin", x)


def cos(x: Value) -> Value:
    return _floats("cos", x)


def tanh(x: Value) -> Value:
    return _floats("tanh", x)


def floor(x: Value) -> Value:
    return _floats("floor", x)


def ceil(x: Value) -> Value:
    return _floats("ceil", x)


def trunc(x: Value) -> Value:
    return _floats("trunc", x)


def rint(x: Value) -> Value:
    return _floats("rint", x)


def isnan(x: Value) -> Value:
    """Whether it is NaN; False for integers."""
    return x != x


def ordered(bits: Value) -> Value:
    """A float's bits as an integer of the floats' order, -0 below +0, and back: it is its own inverse."""
    return bits ^ ((bits >> (bits.element.bits - 1)) & bits.element.limits[1])


def fma(a: Operand, b: Operand, c: Operand) -> Value:
    """a * b + c, rounded once; of integers, which round nothing, just that."""
    return _apply("fma", a, b, c)


def where(condition: Value, a: Operand, b: Operand) -> Value:
    """`a` where the condition holds, else `b`."""
    check(condition.element.is_bool, f"where: the condition is {condition.element.name}, not bool; compare it, e.g. x != 0", InputError)
    one, other = _matched("where", a, b)
    return Value(one.backend.select(condition.raw, one.raw, other.raw, one.element), one.element, one.backend)


def _matched(name: str, *operands: Operand) -> list[Value]:
    """The operands as values of one type, numbers as constants of it."""
    values = [operand for operand in operands if isinstance(operand, Value)]
    check(bool(values), f"{name}: none of the operands is a value", InputError)
    elements = sorted({value.element.name for value in values})
    check(len(elements) == 1, f"{name}: the operands are {' and '.join(elements)}; cast one, e.g. x.cast({elements[0]!r})", InputError)
    return [operand if isinstance(operand, Value) else values[0].constant(operand) for operand in operands]


def _apply(name: str, *operands: Operand) -> Value:
    values = _matched(name, *operands)
    first = values[0]
    computes = not first.element.is_bool or name in ("and", "or", "xor", "minimum", "maximum")
    check(computes, f"{name}: bools have no arithmetic; cast them, e.g. x.cast('i32'), or use & | ~", InputTypeError)
    return Value(first.backend.apply(name, [value.raw for value in values], first.element), first.element, first.backend)


def _floats(name: str, *operands: Operand) -> Value:
    values = _matched(name, *operands)
    check(values[0].element.is_float, f"{name}: {values[0].element.name} is not a float; cast it, e.g. x.cast('f32')", InputError)
    return _apply(name, *values)


def _integers(name: str, *operands: Operand) -> Value:
    values = _matched(name, *operands)
    check(not values[0].element.is_float, f"{name}: {values[0].element.name} has no bits to combine; use integers or bools", InputError)
    return _apply(name, *values)


def _compare(name: str, a: Operand, b: Operand) -> Value:
    first, second = _matched(name, a, b)
    return Value(first.backend.apply(name, [first.raw, second.raw], first.element), BOOL, first.backend)


def _ignoring_nan(name: str, a: Operand, b: Operand) -> Value:
    first, second = _matched(name, a, b)
    chosen = _apply(name, first, second)
    return where(isnan(first), second, where(isnan(second), first, chosen)) if first.element.is_float else chosen
