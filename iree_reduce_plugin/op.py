"""What a reduction is: a few functions over the values of `expressions`, from which kernels and the reference are both made.

A reduction keeps a tuple of accumulators. Each element is `prepare`d, a tuple too; `combine` takes two tuples to one, in the order that
the tuning fixes; `identity` is where they start; `finish` makes the result of the last tuple.
What joins by `initial` is made a tuple by `join`, and combines with the total before `finish`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .element_types import ElementType
from .expressions import Value, Values

Types = tuple[ElementType, ...]
F64, I64, UI64 = (ElementType(name) for name in ("f64", "i64", "ui64"))


def kept(element: ElementType) -> ElementType:
    return element


def widened(element: ElementType) -> ElementType:
    """As NumPy adds and multiplies: integers in 64 bits."""
    return element if element.is_float else UI64 if element.is_unsigned else I64


def as_float(element: ElementType) -> ElementType:
    """As NumPy takes means and norms: integers in f64."""
    return element if element.is_float else F64


def one(element: ElementType) -> Types:
    return (element,)


def itself(x: Value) -> Values:
    return (x,)


@dataclass(frozen=True)
class About:
    """What a finish may need besides the accumulators: K, the type that elements were computed in, and NumPy's `ddof`."""

    count: int
    element: ElementType
    ddof: int = 0


def the_first(accumulators: Values, about: About) -> Value:
    return accumulators[0]


@dataclass(frozen=True, repr=False, eq=False)
class Op:
    """One reduction. The functions are those of the module's docstring.

    loop_type: from the array's type to the one that elements are cast to first, where `dtype=` doesn't say; NumPy's rule
    accumulators: from the type that elements are computed in (`ElementType.accumulator` of the loop's) to the accumulators'
    accumulate: (accumulators, element) -> accumulators, where it is more exact than preparing and combining; it must do the same
    result: from the loop's type to the result's
    default_initial: from the loop's type to what NumPy joins when `initial` is not given; None: nothing
    numpy: NumPy's function. empty: what it gives for an empty array: `identity`, or `error` where it has none
    """

    name: str
    numpy: str
    combine: Callable[[Values, Values], Values]
    identity: Callable[[Types], tuple[Any, ...]]
    prepare: Callable[..., Values] = itself
    accumulate: Callable[..., Values] | None = None
    finish: Callable[[Values, About], Value | Values] = the_first
    join: Callable[[Value], Values] = itself
    loop_type: Callable[[ElementType], ElementType] = kept
    accumulators: Callable[[ElementType], Types] = one
    result: Callable[[ElementType], ElementType | Types] = kept
    default_initial: Callable[[ElementType], int | None] = lambda element: None
    empty: str = "identity"
    takes_floats: bool = True
    takes_bools: bool = True
    takes_integers: bool = True  # as the loop's type
    takes_dtype: bool = True
    takes_initial: bool = True
    takes_index: bool = False  # `prepare` gets the element's column, too
    takes_ddof: bool = False
    takes_where: bool = True
    counts_beside_sum: bool = False  # its accumulators are the elements' sum and their number
    plain: str = ""  # of an op that counts what a mask leaves: the name of the one that need not

    def step(self, accumulators: Values, x: Value, column: Value | None = None) -> Values:
        """The accumulators with one element more. column: where the op takes an index."""
        if self.accumulate is not None:
            return self.accumulate(accumulators, x, column) if self.takes_index else self.accumulate(accumulators, x)
        return self.combine(accumulators, self.prepare(x, column) if self.takes_index else self.prepare(x))

    def alone(self, x: Value, joined: Values | None, column: Value | None = None) -> Values:
        """The accumulators of a single element, and of what joins. column: 0, where the op takes an index."""
        if joined is not None:
            return self.step(joined, x)
        return self.prepare(x, column) if self.takes_index else self.prepare(x)

    @property
    def asked(self) -> str:
        """The name by which it is asked for."""
        return self.plain or self.name

    @property
    def adds_elements(self) -> bool:
        """Whether the first accumulator is the sum of the elements as they are."""
        return (self.prepare is itself and self.adds) or self.counts_beside_sum

    @property
    def adds(self) -> bool:
        """Whether accumulators add up."""
        return self.combine is add

    def __repr__(self) -> str:
        return f"Op({self.name!r})"  # of keys: where functions lie in memory is nothing that a kernel depends on

    def __reduce__(self) -> tuple[Any, ...]:
        from .ops import op_named  # which imports this module

        return op_named, (self.name,)  # functions don't cross to the compiler's process; names do

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Op) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)


def add(a: Values, b: Values) -> Values:
    return (a[0] + b[0],)
