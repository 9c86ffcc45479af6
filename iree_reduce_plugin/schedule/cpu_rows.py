"""On the CPU, a result whose elements lie side by side in memory: its S * L * E accumulators lie along vectors.

Few stay in registers across the steps; many are in memory, in the core's cache, and a step joins them block by block.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from iree.compiler import ir
from iree.compiler.dialects import scf, tensor

from ..job import Part
from ..loops import K
from ..mlir import element_type, index, read, write
from . import arithmetic
from .arithmetic import Values
from .cpu_combine import STRAIGHT, Reader, combine_accumulators
from .cpu_tree import join_in_memory
from .kernel import at_the_end, rounds
from .loads import Arrays, Place, Vectors, load, load_each, reads_vectors, side_by_side
from .payload import apply, indices, symbol

REGISTER_BYTES = 1024  # of accumulators kept in registers across steps
BLOCK = 64  # accumulators to a block where they are not

NewBlock = Callable[[list[ir.Value], ir.Value, int], Values]


class CpuRows:
    """Writes one result of the job at a time."""

    def __init__(self, part: Part):
        self.problem, self.target, self.layout = part.problem, part.target, part.layout
        self.size = self.layout.columns.size
        self.in_registers = self.size * self.layout.accumulator_bytes <= REGISTER_BYTES

    def write(self, x: Arrays, at: Place, outs: list[ir.Value]) -> list[ir.Value]:
        """Writes the results of the row into `outs`."""
        if self.in_registers:
            total = combine_accumulators(self.problem, self.target, self.layout, self._registers(x, at))
        else:
            accumulators = self._memory(x, at)
            tile = self.layout.columns
            if tile.lanes * tile.elements > STRAIGHT:
                total = arithmetic.extract(self._held(join_in_memory(tile, accumulators, self._joined), index(0), 1), 0)
            else:
                total = combine_accumulators(self.problem, self.target, self.layout, self._reader(accumulators))
        results, where = arithmetic.finish(self.problem, self.target, total), indices(self.problem.result_memory, at)
        return [tensor.InsertOp(result, out, where).result for result, out in zip(results, outs, strict=True)]

    def _registers(self, x: Arrays, at: Place) -> Reader:
        held = arithmetic.start(self.problem, self.target, self.size)
        if self.layout.full_steps:
            loop = scf.ForOp(*rounds(self.layout, at, 1), index(1), list(held))
            with ir.InsertionPoint(loop.body):
                column = apply(symbol(0) * self.size, [loop.induction_variable])
                joined = self._join(tuple(loop.inner_iter_args), x, {**at, K: column}, self.size)
                scf.YieldOp(list(joined))
            held = tuple(loop.results)
        if rest := self.layout.columns.remainder:
            end = {**at, K: index(self.layout.full_steps * self.size)}

            def join(carried: list[ir.Value]) -> list[ir.Value]:
                front = self._join(arithmetic.cut(tuple(carried), 0, rest), x, end, rest)
                return list(arithmetic.replace(tuple(carried), front, 0))

            held = tuple(at_the_end(self.layout, at, list(held), join))
        return lambda _, offset, length: arithmetic.cut(held, offset, length)  # so few are combined together, from base 0

    def _memory(self, x: Arrays, at: Place) -> list[ir.Value]:
        accumulators = [tensor.EmptyOp([self.size], element_type(element)).result for element in self.problem.accumulators]
        accumulators = self._blocks(
            accumulators, self.size, lambda held, first, length: arithmetic.start(self.problem, self.target, length)
        )
        if self.layout.full_steps:
            loop = scf.ForOp(*rounds(self.layout, at, 1), index(1), accumulators)
            with ir.InsertionPoint(loop.body):
                base = apply(symbol(0) * self.size, [loop.induction_variable])
                scf.YieldOp(self._step(list(loop.inner_iter_args), x, at, base, self.size))
            accumulators = list(loop.results)
        if rest := self.layout.columns.remainder:
            end = index(self.layout.full_steps * self.size)
            accumulators = at_the_end(self.layout, at, accumulators, lambda held: self._step(held, x, at, end, rest))
        return accumulators

    def _reader(self, accumulators: list[ir.Value]) -> Reader:
        return lambda base, offset, length: self._held(accumulators, apply(symbol(0) + offset, [base]), length)

    def _joined(self, place: ir.Value, other: ir.Value, accumulators: list[ir.Value]) -> list[ir.Value]:
        pair = [self._held(accumulators, where, 1) for where in (place, other)]
        return self._put(accumulators, arithmetic.combine(self.problem, self.target, *pair), place)

    def _step(self, accumulators: list[ir.Value], x: Arrays, at: Place, base: ir.Value, count: int) -> list[ir.Value]:
        """Joins `count` columns from `base` on."""

        def join(held: list[ir.Value], first: ir.Value, length: int) -> Values:
            column = apply(symbol(0) + symbol(1), [base, first])
            return self._join(self._held(held, first, length), x, {**at, K: column}, length)

        return self._blocks(accumulators, count, join)

    def _blocks(self, accumulators: list[ir.Value], count: int, new: NewBlock) -> list[ir.Value]:
        """The first `count` accumulators, block by block, become `new(accumulators, first, length)`."""
        whole = count // BLOCK * BLOCK
        if whole:
            loop = scf.ForOp(index(0), index(whole), index(BLOCK), accumulators)
            with ir.InsertionPoint(loop.body):
                first, held = loop.induction_variable, list(loop.inner_iter_args)
                scf.YieldOp(self._put(held, new(held, first, BLOCK), first))
            accumulators = list(loop.results)
        if count > whole:
            accumulators = self._put(accumulators, new(accumulators, index(whole), count - whole), index(whole))
        return accumulators

    def _held(self, accumulators: list[ir.Value], first: ir.Value, length: int) -> Values:
        parts = zip(accumulators, self.problem.accumulators, strict=True)
        return tuple(read(held, [first], [length], element) for held, element in parts)

    @staticmethod
    def _put(accumulators: list[ir.Value], values: Values, first: ir.Value) -> list[ir.Value]:
        return [write(value, held, [first], in_bounds=True) for value, held in zip(values, accumulators, strict=True)]

    def _join(self, held: Values, x: Arrays, at: Place, length: int) -> Values:
        return arithmetic.step(self.problem, self.target, held, self._load(x, at, length), at[K], along_k=True)

    def _load(self, x: Arrays, at: Place, length: int) -> Vectors:
        """Vectors of that many columns, in pieces where K is several dimensions of memory."""
        if reads_vectors(self.problem, self.size) and reads_vectors(self.problem, length):
            return load(self.problem, x, at, length)
        part = math.gcd(length, self.size, self.problem.memory[-1].extent)
        if part == 1:
            return load_each(self.problem, x, at, [apply(symbol(0) + i, [at[K]]) for i in range(length)])
        pieces = [load(self.problem, x, {**at, K: apply(symbol(0) + i, [at[K]])}, part) for i in range(0, length, part)]
        return side_by_side([arithmetic.extract(piece, i) for piece in pieces for i in range(part)])
