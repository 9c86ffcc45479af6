"""What is read of the array: a vector at given places of the canonical loops, and no access ever out of bounds."""

from __future__ import annotations

from collections.abc import Mapping

from iree.compiler import ir
from iree.compiler.dialects import tensor, vector

from ..loops import INNER, K
from ..mlir import read, vector_type
from ..problem import Problem
from .payload import indices

Place = Mapping[str, ir.Value]  # an index for each canonical loop


def contiguous(problem: Problem) -> str:
    """The loop that is innermost in memory."""
    return problem.memory[-1].loop


def reads_vectors(problem: Problem, length: int) -> bool:
    """Whether vectors of that length along the loop innermost in memory, from multiples of it in K, are whole in memory.

    Where K is several dimensions of memory, a vector must not leave the last of them. Along a kept loop a vector may start anywhere.
    """
    last = problem.memory[-1]
    return last.loop == INNER or last.extent == problem.columns or last.extent % length == 0


def load(problem: Problem, x: ir.Value, at: Place, length: int) -> ir.Value:
    """A vector of `length` elements along the loop innermost in memory, the first of which is `at`."""
    return read(x, indices(problem.memory, at), [length], problem.input)


def load_each(problem: Problem, x: ir.Value, at: Place, columns: list[ir.Value]) -> ir.Value:
    """A vector of elements at these columns, one by one."""
    scalars = [tensor.ExtractOp(x, indices(problem.memory, {**at, K: column})).result for column in columns]
    return vector.FromElementsOp(vector_type([len(scalars)], problem.input), scalars).result
