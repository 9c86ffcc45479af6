"""Expressions as data: what a function of values is made of."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from .element_types import ElementType
from .expressions import Value


@dataclass(frozen=True)
class Node:
    """One step of a traced expression. operands: other nodes; leaves have none."""

    name: str
    element: str
    operands: tuple[Node, ...] = ()

    @functools.cached_property
    def steps(self) -> frozenset[tuple[str, str]]:
        """Name and type of every step that the expression takes."""
        own = frozenset([(self.name, self.element)] if self.operands else [])
        return own.union(*(operand.steps for operand in self.operands))


class Trace:
    """The backend that computes nothing, and remembers what would be.

    >>> x = Trace.input("x", ElementType("f32"))
    >>> sorted(sqrt(x * x + 1.0).raw.steps)
    [('add', 'f32'), ('mul', 'f32'), ('sqrt', 'f32')]
    """

    @staticmethod
    def input(name: str, element: ElementType) -> Value:
        return Value(Node(name, element.name), element, Trace())

    def apply(self, name: str, operands: list[Node], element: ElementType) -> Node:
        return Node(name, element.name, tuple(operands))

    def constant(self, value: Any, element: ElementType, like: Node) -> Node:
        return Node(repr(value.item() if hasattr(value, "item") else value), element.name)

    def select(self, condition: Node, a: Node, b: Node, element: ElementType) -> Node:
        return Node("where", element.name, (condition, a, b))

    def cast(self, value: Node, source: ElementType, target: ElementType) -> Node:
        return Node(f"cast from {source.name}", target.name, (value,))

    def bitcast(self, value: Node, source: ElementType, target: ElementType) -> Node:
        return Node(f"bitcast from {source.name}", target.name, (value,))
