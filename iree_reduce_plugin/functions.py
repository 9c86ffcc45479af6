"""The user's own element functions, `map=` before a reduction and `finalize=` after it: traced once, evaluated by every backend.

A function is Python over the values of `expressions`, or a NumPy function of one argument or its name (`functions_named`). What it does
becomes plain data, so that it crosses to the compiler's process and is part of the cache's key.

A product of floats that feeds a sum is rounded together with it, once (`fma`): devices do that on their own, each in another place.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .element_types import ElementType
from .errors import InputError, check
from .expressions import BOOL, Value, fma
from .expressions_trace import Node, Trace
from .functions_named import NAMED

MOST_STEPS = 100

Given = Callable[[Value], Value] | str


@dataclass(frozen=True)
class Function:
    """A function of one scalar: what it is made of, and the types that it takes and gives."""

    root: Node
    takes: ElementType
    gives: ElementType

    @staticmethod
    def of(name: str, given: Given, takes: ElementType) -> Function:
        """Traces `given`, the argument called `name`, for a scalar of that type.

        Raises InputError for a name that is not known, and for a function that gives no value or takes too many steps.

        >>> Function.of("map", lambda x: x * x + 1, ElementType("f32")).gives
        ElementType(name='f32')
        """
        if isinstance(given, np.ufunc):
            given = given.__name__
        if isinstance(given, str):
            check(
                given in NAMED,
                f"{name} {given!r} is not known: use one of {', '.join(NAMED)}, or a Python function of one value",
                InputError,
            )
            given = NAMED[given]
        check(callable(given), f"{name} {given!r}: give a Python function of one value, or one of {', '.join(NAMED)}", InputError)
        try:
            result = given(Trace.input("x", takes))
        except (TypeError, AttributeError) as e:
            if isinstance(e, InputError):
                raise
            raise InputError(
                f"{name}: it can't be used on values: {e}; compute with + - * / and the functions of iree_reduce_plugin.expressions"
            ) from None
        check(
            isinstance(result, Value),
            f"{name}: the function gives a {type(result).__name__}, not a value: compute it from its argument",
            InputError,
        )
        steps = _count(result.raw)
        check(steps <= MOST_STEPS, f"{name}: the function takes {steps} steps, above the {MOST_STEPS} that fit a kernel's loop", InputError)
        check(
            not _is_constant(result.raw),
            f"{name}: a function that gives the same for every {takes.name} is not supported; compute what it gives without an array",
            InputError,
        )
        return Function(result.raw, takes, result.element)

    def __call__(self, x: Value) -> Value:
        """The function of `x`, by its backend."""
        return _evaluate(self.root, x)

    def factors(self, x: Value) -> tuple[Value, Value] | None:
        """Two values whose product the function gives, where its last step is a product of floats."""
        product = _product(self.root) if self.gives.is_float else None
        if product is None:
            return None
        first, second = (_evaluate(factor, x) for factor in product[1:])
        return -first if product[0] else first, second


def _is_constant(root: Node) -> bool:
    """Whether the node doesn't depend on the argument, so that IREE would fold it away, and what is computed from it."""
    known: dict[int, bool] = {}  # a node may be an operand of many

    def is_constant(node: Node) -> bool:
        if id(node) not in known:
            known[id(node)] = _folds(node, is_constant)
        return known[id(node)]

    return is_constant(root)


def _folds(node: Node, is_constant: Callable[[Node], bool]) -> bool:
    if not node.operands:
        return node.name != "x"
    if all(map(is_constant, node.operands)):
        return True
    first, *others = node.operands
    if ElementType(first.element).is_float:
        return False
    if node.name in ("mul", "and") and any(not one.operands and one.name in ("0", "False") for one in node.operands):
        return True
    return node.name in ("sub", "xor", *_COMPARISONS) and first is others[0]


def _count(root: Node) -> int:
    seen: set[int] = set()
    left = [root]
    while left and len(seen) <= 10 * MOST_STEPS:
        node = left.pop()
        if id(node) not in seen and node.operands:
            seen.add(id(node))
            left += node.operands
    return len(seen)


def _evaluate(root: Node, x: Value) -> Value:
    known: dict[int, Value] = {}

    def value(node: Node) -> Value:
        if id(node) not in known:
            known[id(node)] = _step(node, x, value)
        return known[id(node)]

    return value(root)


def _step(node: Node, x: Value, value: Callable[[Node], Value]) -> Value:
    backend, element = x.backend, ElementType(node.element)
    if not node.operands:
        return x if node.name == "x" else Value(backend.constant(_number(node.name), element, x.raw), element, backend)
    if node.name in ("add", "sub") and element.is_float:
        a, b = node.operands
        minus = node.name == "sub"
        if product := _product(a):
            first, second = (value(factor) for factor in product[1:])
            return fma(-first if product[0] else first, second, -value(b) if minus else value(b))
        if product := _product(b):
            first, second = (value(factor) for factor in product[1:])
            return fma(-first if product[0] != minus else first, second, value(a))
    operands = [value(operand) for operand in node.operands]
    if node.name == "where":
        condition, a_value, b_value = operands
        return Value(backend.select(condition.raw, a_value.raw, b_value.raw, element), element, backend)
    if node.name.startswith("cast from "):
        return operands[0].cast(element)
    if node.name.startswith("bitcast from "):
        return operands[0].bitcast(element)
    raw = backend.apply(node.name, [operand.raw for operand in operands], operands[0].element)
    return Value(raw, BOOL if node.name in _COMPARISONS else element, backend)


def _product(node: Node) -> tuple[bool, Node, Node] | None:
    """(whether it is negative, the factors) of a product."""
    if node.name == "neg":
        inner = _product(node.operands[0])
        return None if inner is None else (not inner[0], *inner[1:])
    return (False, *node.operands) if node.name == "mul" else None  # type: ignore[return-value]


_COMPARISONS = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))


@functools.cache
def _number(text: str) -> Any:
    """The constant that `repr` made the text of."""
    if text in ("True", "False"):
        return text == "True"
    try:
        return int(text)
    except ValueError:
        return float(text)
