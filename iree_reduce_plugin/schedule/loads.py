"""What is read of the array: a vector at given places of the canonical loops, and no access ever out of bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iree.compiler import ir
from iree.compiler.dialects import tensor, vector

from ..loops import INNER, K
from ..mlir import read
from ..problem import Problem
from .payload import indices

Place = Mapping[str, ir.Value]  # an index for each canonical loop
Arrays = Sequence[ir.Value]  # the kernel's inputs: the array, and the mask where there is one
Vectors = tuple[ir.Value, ...]  # what is read of each


def contiguous(problem: Problem) -> str:
    """The loop that is innermost in memory."""
    return problem.memory[-1].loop


def reads_vectors(problem: Problem, length: int) -> bool:
    """Whether vectors of that length along the loop innermost in memory, from multiples of it in K, are whole in memory.

    Where K is several dimensions of memory, a vector must not leave the last of them. Along a kept loop a vector may start anywhere.
    """
    last = problem.memory[-1]
    return last.loop == INNER or last.extent == problem.columns or last.extent % length == 0


def load(problem: Problem, x: Arrays, at: Place, length: int) -> Vectors:
    """Vectors of `length` elements along the loop innermost in memory, the first of which is `at`."""
    place = indices(problem.memory, at)
    return tuple(read(array, place, [length], element) for array, element in zip(x, problem.inputs, strict=True))


def load_each(problem: Problem, x: Arrays, at: Place, columns: list[ir.Value]) -> Vectors:
    """Vectors of elements at these columns, one by one."""
    places = [indices(problem.memory, {**at, K: column}) for column in columns]
    return side_by_side([tuple(tensor.ExtractOp(array, place).result for array in x) for place in places])


def side_by_side(scalars: Sequence[Vectors]) -> Vectors:
    """Vectors of scalars."""
    kinds = [ir.VectorType.get([len(scalars)], scalar.type) for scalar in scalars[0]]
    return tuple(vector.FromElementsOp(kind, list(each)).result for kind, each in zip(kinds, zip(*scalars, strict=True), strict=True))
