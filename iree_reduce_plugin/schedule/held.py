"""What a thread holds: its accumulators, as vectors along the loop that is innermost in memory, and what joins them in a step.

Where that loop is K, a vector is some of the E columns of one row; where it is a kept loop, some of the thread's elements of that loop,
for one row and one column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir
from iree.compiler.dialects import arith, vector

from ..job import Part
from ..loops import INNER, ROWS, K
from ..mlir import index
from . import arithmetic
from .arithmetic import Values
from .loads import Arrays, Vectors, contiguous, load, load_each, reads_vectors
from .payload import apply, chunks, clamp, moved, symbol


@dataclass(frozen=True)
class Piece:
    """One vector: row, inner element and column of its first element, counted from the thread's first."""

    row: int
    inner: int
    column: int
    length: int


class Held:
    """The accumulators of a thread of the job, one tuple of vectors for each Piece."""

    def __init__(self, part: Part):
        self.problem, self.target, self.layout = part.problem, part.target, part.layout
        self.along_k = contiguous(part.problem) == K
        layout, elements = self.layout, self.layout.columns.elements
        most = part.target.longest_vector(max(element.bytes for element in (*part.problem.inputs, *part.problem.accumulators)))
        if self.along_k:
            self.pieces = [Piece(row, 0, chunk[0], chunk[1]) for row in range(layout.rows.held) for chunk in chunks(elements, most)]
        else:
            self.pieces = [
                Piece(row, first, column, length)
                for row in range(layout.rows.held)
                for column in range(elements)
                for first, length in chunks(layout.inner.held, most)
            ]

    def start(self) -> list[Values]:
        return [arithmetic.start(self.problem, self.target, piece.length) for piece in self.pieces]

    def flat(self, values: Sequence[Values]) -> list[ir.Value]:
        return [one for value in values for one in value]

    def nested(self, values: Sequence[ir.Value]) -> list[Values]:
        count = len(values) // len(self.pieces)
        return [tuple(values[i * count : (i + 1) * count]) for i in range(len(self.pieces))]

    def combine_steps(
        self, accumulators: list[Values], x: Arrays, first: dict[str, ir.Value], number: ir.Value, count: int
    ) -> list[Values]:
        """Joins `count` whole steps, from step `number`: all are read first."""
        size = self.layout.columns.size
        columns = [apply(symbol(0) + (symbol(1) + step) * size, [first[K], number]) for step in range(count)]
        read = [[self._load(x, {**first, K: column}, piece) for piece in self.pieces] for column in columns]
        for column, vectors in zip(columns, read, strict=True):
            parts = zip(accumulators, vectors, self.pieces, strict=True)
            accumulators = [self._step(held, vector, column, piece) for held, vector, piece in parts]
        return accumulators

    def _step(self, held: Values, x: Vectors, column: ir.Value, piece: Piece) -> Values:
        place = apply(symbol(0) + piece.column, [column]) if self.problem.takes_index else column
        return arithmetic.step(self.problem, self.target, held, x, place, self.along_k)

    def combine_last_step(self, accumulators: list[Values], x: Arrays, first: dict[str, ir.Value]) -> list[Values]:
        """Joins the partial step: what would be past K is read somewhere else, and leaves the accumulators as they are."""
        column = apply(symbol(0) + self.layout.full_steps * self.layout.columns.size, [first[K]])
        joined = []
        for old, piece in zip(accumulators, self.pieces, strict=True):
            inside, read = self._load_inside(x, {**first, K: column}, piece)
            joined.append(arithmetic.select(inside, self._step(old, read, column, piece), old))
        return joined

    def _at(self, first: dict[str, ir.Value], piece: Piece) -> dict[str, ir.Value]:
        return moved(first, {ROWS: piece.row, INNER: piece.inner, K: piece.column})

    def _load(self, x: Arrays, first: dict[str, ir.Value], piece: Piece) -> Vectors:
        at = self._at(first, piece)
        if reads_vectors(self.problem, piece.length):
            return load(self.problem, x, at, piece.length)
        return load_each(self.problem, x, at, [apply(symbol(0) + i, [at[K]]) for i in range(piece.length)])

    def _load_inside(self, x: Arrays, first: dict[str, ir.Value], piece: Piece) -> tuple[ir.Value, Vectors]:
        """(which elements are before K's end, the elements)"""
        at, columns = self._at(first, piece), self.problem.columns
        along = piece.length if self.along_k else 1
        if columns % along == 0 and reads_vectors(self.problem, piece.length):  # a vector is inside, or it is not
            inside = self._is_before(at[K], columns)
            at[K] = clamp(symbol(0), columns - along, [at[K]])
            read = load(self.problem, x, at, piece.length)
            mask = vector.BroadcastOp(ir.VectorType.get([piece.length], inside.type), inside).result
        else:
            places = [apply(symbol(0) + i, [at[K]]) for i in range(piece.length)]
            read = load_each(self.problem, x, at, [clamp(symbol(0), columns - 1, [place]) for place in places])
            each = [self._is_before(place, columns) for place in places]
            mask = vector.FromElementsOp(ir.VectorType.get([piece.length], each[0].type), each).result
        return mask, read

    @staticmethod
    def _is_before(column: ir.Value, end: int) -> ir.Value:
        return arith.CmpIOp(arith.CmpIPredicate.slt, column, index(end)).result

    def fold(self, accumulators: list[Values]) -> dict[tuple[int, int], Values]:
        """The E accumulators of each result in ascending order -> one value, by its place (row, inner element)."""
        scalars: dict[tuple[int, int], list[Values]] = {}
        for piece, value in zip(self.pieces, accumulators, strict=True):
            for i in range(piece.length):
                place = (piece.row, 0) if self.along_k else (piece.row, piece.inner + i)
                scalars.setdefault(place, []).append(arithmetic.extract(value, i))
        return {place: arithmetic.fold(self.problem, self.target, values) for place, values in scalars.items()}
