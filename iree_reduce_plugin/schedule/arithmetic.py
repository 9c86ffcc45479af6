"""What is done to the values: the op's element step, its combining, its identity and its last step, on vectors and scalars alike.

Values are tuples: one entry for each accumulator of the op.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from iree.compiler import ir
from iree.compiler.dialects import arith, vector

from ..element_types import ElementType
from ..expressions import Value
from ..expressions_mlir import MlirBackend, loaded, stored
from ..mlir import constant, splat
from ..op import I64
from ..problem import Problem
from ..targets import Target
from .loads import Vectors

Values = tuple[ir.Value, ...]


def step(problem: Problem, target: Target, held: Values, x: Vectors, column: ir.Value, along_k: bool) -> Values:
    """The accumulators with the elements as read. column: of the first element; the others follow it, or all have the same."""
    place = _columns(column, ir.VectorType(x[0].type).shape[0], along_k, target) if problem.takes_index else None
    elements = tuple(loaded(one, element, target) for one, element in zip(x, problem.inputs, strict=True))
    return _raw(problem.step(_values(problem, target, held), elements, place))


def _columns(column: ir.Value, length: int, along_k: bool, target: Target) -> Value:
    kind = ir.VectorType.get([length], ir.IntegerType.get_signless(64))
    first = vector.BroadcastOp(kind, arith.IndexCastOp(kind.element_type, column).result).result
    if along_k and length > 1:
        offsets = ir.DenseElementsAttr.get(np.arange(length, dtype="i8"), type=kind)
        first = arith.AddIOp(first, arith.ConstantOp(kind, offsets).result).result
    return Value(first, I64, MlirBackend(target))


def identity(problem: Problem, length: int) -> Values:
    """Vectors of what changes nothing."""
    parts = zip(problem.op.identity(problem.accumulators), problem.accumulators, strict=True)
    return tuple(splat(element.numpy.type(value), length, element) for value, element in parts)


def start(problem: Problem, target: Target, length: int) -> Values:
    """Vectors of what the accumulators start from."""
    first = problem.identity if _adds_zero_last(problem, target) else problem.start
    return (splat(first, length, problem.accumulator), *identity(problem, length)[1:])


def _adds_zero_last(problem: Problem, target: Target) -> bool:
    """Whether +0.0, which NumPy joins to a sum, is added to the total: accumulators that start from -0.0 save the first addition.

    Elsewhere they start from +0.0, which gives the same bits (see `Problem.start`): Vulkan's drivers drop either addition.
    """
    return problem.starts_from_zero and target.backend in ("hip", "cuda")


def combine(problem: Problem, target: Target, a: Values, b: Values) -> Values:
    return _raw(problem.op.combine(_values(problem, target, a), _values(problem, target, b)))


def fold(problem: Problem, target: Target, values: Sequence[Values]) -> Values:
    """Combines in ascending order."""
    return functools.reduce(functools.partial(combine, problem, target), values)


def finish(problem: Problem, target: Target, total: Values) -> Values:
    """Scalars: the accumulators' total -> the result as memory holds it, `initial` joined, finished by the op, rounded once."""
    values = _values(problem, target, total)
    if _adds_zero_last(problem, target):
        values = problem.op.combine(problem.op.join(_constant(0.0, problem.computed, target)), values)
    elif problem.epilogue_initial is not None:
        values = problem.op.combine(problem.op.join(_constant(problem.epilogue_initial, problem.computed, target)), values)
    return tuple(stored(result) for result in problem.finish(values))


def _values(problem: Problem, target: Target, raw: Values) -> tuple[Value, ...]:
    backend = MlirBackend(target)
    return tuple(Value(value, element, backend) for value, element in zip(raw, problem.accumulators, strict=True))


def _raw(values: tuple[Value, ...]) -> Values:
    return tuple(value.raw for value in values)


def _constant(value: object, element: ElementType, target: Target) -> Value:
    """A constant whose sums and products stay where they are."""
    return Value(constant(value, element), element, MlirBackend(target, in_place=True))


def select(condition: ir.Value, a: Values, b: Values) -> Values:
    """Elementwise; the condition is a vector of the same length, or a scalar for scalars."""
    return tuple(arith.SelectOp(condition, left, right).result for left, right in zip(a, b, strict=True))


def extract(values: Values, position: int) -> Values:
    return tuple(vector.ExtractOp(value, [], [position]).result for value in values)


def cut(values: Values, first: int, length: int) -> Values:
    """Part of the vectors."""
    return tuple(vector.ExtractStridedSliceOp(_vector(value, length), value, [first], [length], [1]).result for value in values)


def replace(values: Values, part: Values, first: int) -> Values:
    """The vectors with `part` in its place."""
    return tuple(vector.InsertStridedSliceOp(new, value, [first], [1]).result for new, value in zip(part, values, strict=True))


def _vector(value: ir.Value, length: int) -> ir.Type:
    return ir.VectorType.get([length], ir.VectorType(value.type).element_type)
