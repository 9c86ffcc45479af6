"""On the CPU, results that lie side by side in memory: vectors lie along them, one for each of the S * L * E accumulators of a result.

A block of results is computed at a time, with its accumulators in the core's cache: each step reads whole runs of memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from iree.compiler import ir
from iree.compiler.dialects import scf, tensor

from ..job import Part
from ..loops import INNER, K
from ..mlir import element_type, index, read, write
from . import arithmetic
from .arithmetic import Values
from .cpu_tree import count, join_in_memory
from .kernel import at_the_end, rounds
from .loads import Arrays, Place, load
from .payload import apply, clamp, indices, put, symbol

CACHE_BYTES = 1 << 15  # of accumulators of a block
VECTOR = 64  # results to a vector: some registers, so that additions overlap
AT_A_TIME = 4  # steps joined while the accumulators are in registers

Accumulators = list[ir.Value]  # tensors [S * L * E, block]
RunBody = Callable[[ir.Value, list[ir.Value], int], list[ir.Value]]


class CpuInner:
    """Writes the results of one workgroup for one row."""

    def __init__(self, part: Part):
        self.problem, self.target, self.layout = part.problem, part.target, part.layout
        self.size = self.layout.columns.size
        tile = self.layout.inner
        self.tile = min(tile.size, tile.extent)  # results of a workgroup
        most = max(1, CACHE_BYTES // (self.size * self.layout.accumulator_bytes))
        self.block = self.tile if self.tile <= most else max(1, most // VECTOR) * VECTOR if most >= VECTOR else most

    def write(self, x: Arrays, at: Place, outs: list[ir.Value]) -> list[ir.Value]:
        """Writes the results of the workgroup's tile for the row into `outs`, block by block; the last tile overlaps the one before."""
        tile = self.layout.inner
        position = symbol(0) * tile.size
        first = clamp(position, tile.extent - self.tile, [at[INNER]]) if tile.remainder else apply(position, [at[INNER]])

        def body(offset: ir.Value, results: list[ir.Value], length: int) -> list[ir.Value]:
            here = {**at, INNER: apply(symbol(0) + symbol(1), [first, offset])}
            return self._block(x, here, results, length)

        return self._loop(self.tile, self.block, outs, body)

    def _block(self, x: Arrays, at: Place, outs: list[ir.Value], length: int) -> list[ir.Value]:
        accumulators = [tensor.EmptyOp([self.size, length], element_type(element)).result for element in self.problem.accumulators]
        accumulators = self._start(accumulators, length)
        steps = math.gcd(AT_A_TIME, self.layout.piece_steps) if self.layout.piece_steps else AT_A_TIME
        whole, rest = divmod(self.layout.full_steps, steps)
        if whole:
            loop = scf.ForOp(*rounds(self.layout, at, steps), index(1), accumulators)
            with ir.InsertionPoint(loop.body):
                column = apply(symbol(0) * (steps * self.size), [loop.induction_variable])
                scf.YieldOp(self._steps(list(loop.inner_iter_args), x, {**at, K: column}, length, self.size, steps))
            accumulators = list(loop.results)
        left = self.layout.columns.remainder

        def end(held: Accumulators) -> Accumulators:
            if rest:
                held = self._steps(held, x, {**at, K: index(whole * steps * self.size)}, length, self.size, rest)
            if left:
                held = self._steps(held, x, {**at, K: index(self.layout.full_steps * self.size)}, length, left, 1)
            return held

        accumulators = at_the_end(self.layout, at, accumulators, end) if rest or left else accumulators
        return self._combine(accumulators, at, outs, length)

    def _start(self, accumulators: Accumulators, length: int) -> Accumulators:
        def each(place: ir.Value, held: list[ir.Value]) -> list[ir.Value]:
            return self._vectors(
                length, held, lambda first, old, count: self._put(old, place, first, arithmetic.start(self.problem, self.target, count))
            )

        return count(0, self.size, accumulators, each)

    def _steps(self, accumulators: Accumulators, x: Arrays, at: Place, length: int, places: int, steps: int) -> Accumulators:
        """Joins the columns of some steps: of each, as many as there are `places` of accumulators."""

        def each(place: ir.Value, held: list[ir.Value]) -> list[ir.Value]:
            def join(first: ir.Value, old: list[ir.Value], count: int) -> list[ir.Value]:
                values = self._get(old, place, first, count)
                inner = apply(symbol(0) + symbol(1), [at[INNER], first])
                for step in range(steps):
                    column = apply(symbol(0) + symbol(1) + step * self.size, [at[K], place])
                    element = load(self.problem, x, {**at, K: column, INNER: inner}, count)
                    values = arithmetic.step(self.problem, self.target, values, element, column, along_k=False)
                return self._put(old, place, first, values)

            return self._vectors(length, held, join)

        return count(0, places, accumulators, each)

    def _combine(self, accumulators: Accumulators, at: Place, outs: list[ir.Value], length: int) -> list[ir.Value]:
        """The tree, each step of it on vectors of results, in place: elements into the first, lanes level by level, subgroups."""

        def join(place: ir.Value, other: ir.Value, held: Accumulators) -> Accumulators:
            def each(first: ir.Value, old: list[ir.Value], count: int) -> list[ir.Value]:
                pair = [self._get(old, where, first, count) for where in (place, other)]
                return self._put(old, place, first, arithmetic.combine(self.problem, self.target, *pair))

            return self._vectors(length, held, each)

        accumulators = join_in_memory(self.layout.columns, accumulators, join)

        def finish(first: ir.Value, results: list[ir.Value], count: int) -> list[ir.Value]:
            total = self._get(accumulators, index(0), first, count)
            scalars = [arithmetic.finish(self.problem, self.target, arithmetic.extract(total, i)) for i in range(count)]
            inner = apply(symbol(0) + symbol(1), [at[INNER], first])
            place = indices(self.problem.result_memory, {**at, INNER: inner})
            return [put(line, result, place) for line, result in zip(zip(*scalars, strict=True), results, strict=True)]

        return self._vectors(length, outs, finish)

    def _get(self, accumulators: Accumulators, place: ir.Value, first: ir.Value, count: int) -> Values:
        parts = zip(accumulators, self.problem.accumulators, strict=True)
        return tuple(read(held, [place, first], [count], element) for held, element in parts)

    @staticmethod
    def _put(accumulators: Accumulators, place: ir.Value, first: ir.Value, values: Values) -> Accumulators:
        return [write(value, held, [place, first], in_bounds=True) for value, held in zip(values, accumulators, strict=True)]

    def _vectors(self, length: int, carried: list[ir.Value], body: RunBody) -> list[ir.Value]:
        """`body(first, carried, count)` for each vector of a block."""
        return self._loop(length, VECTOR, carried, body)

    @staticmethod
    def _loop(length: int, step: int, carried: list[ir.Value], body: RunBody) -> list[ir.Value]:
        """From 0 to `length`, `step` at a time; what is left over at the end is a call of its own."""
        whole = length // step * step
        if whole:
            loop = scf.ForOp(index(0), index(whole), index(step), carried)
            with ir.InsertionPoint(loop.body):
                scf.YieldOp(body(loop.induction_variable, list(loop.inner_iter_args), step))
            carried = list(loop.results)
        return body(index(whole), carried, length - whole) if length > whole else carried
