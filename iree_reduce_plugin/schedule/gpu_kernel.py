"""The payload of the schedule for SIMT targets: one function, the whole distribution as nested `scf.forall`s. One method a stage:

    workgroups    the kept loops -> workgroups (`kernel.py`)
    subgroups     subgroup_basis: a workgroup's tile -> subgroups, their partials side by side in workgroup memory
    lanes         lane_basis: a subgroup's tile -> lanes
    steps         K -> steps of S * L * E columns; what a thread holds stays in registers (`held.py`)
    store         a thread's elements folded, the lanes combined (`gpu_lanes.py`), the first lane writes
    merge         the subgroups' partials -> the result

Where tiles don't divide a kept loop the last thread's elements overlap its neighbour's: both compute them, in the same order, and both
write the same bits. So every thread has whole vectors, and nothing is masked but columns past K.

Source of the form: IREE PR #19596 (partial reductions across subgroups).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from iree.compiler import ir
from iree.compiler.dialects import arith, gpu, scf, tensor

from ..job import Part
from ..layout import Basis, Tile
from ..loops import INNER, PIECES, ROWS, K
from ..mlir import element_type, index, read
from . import arithmetic
from .arithmetic import Values
from .gpu_lanes import combine_lanes
from .held import Held
from .kernel import Ids, Kernel, Outs, at_the_end, rounds
from .loads import Arrays
from .payload import apply, chunks, clamp, forall, indices, moved, put, results, symbol

Place = tuple[int, int]  # of a result among the thread's: row, inner element
Totals = dict[Place, Values]


class Line(NamedTuple):
    """Where some of a thread's results go, side by side in memory."""

    places: tuple[Place, ...]
    at: list[ir.Value]


class GpuKernel(Kernel):
    """Workgroups of subgroups of lanes; see the module's docstring."""

    def __init__(self, part: Part):
        super().__init__(part)
        self.held = Held(part)

    def workgroup(self, x: Arrays, group: Ids, outs: Outs) -> Outs:
        if not self.layout.merges:
            return self.subgroups(x, group, outs)
        places = [*(tile.slots for tile in self.layout.kept.values()), self.layout.columns.subgroups]
        partials = [tensor.EmptyOp(places, element_type(accumulator)).result for accumulator in self.problem.accumulators]
        partials = self.subgroups(x, group, partials)
        gpu.BarrierOp()  # all partials are written before the first is read
        return self.merge(partials, group, outs)

    def subgroups(self, x: Arrays, group: Ids, outs: Outs) -> Outs:
        counts, _ = self.layout.subgroup_basis
        with forall(counts, _linear("warp", len(counts)), outs) as loop:
            loop.give(self.lanes(x, group, self._by_loop(loop.indices, self.layout.subgroup_basis), loop.whole))
        return results(loop)

    def lanes(self, x: Arrays, group: Ids, subgroup: Ids, outs: Outs) -> Outs:
        counts, _ = self.layout.lane_basis
        with forall(counts, _linear("lane", len(counts)), outs) as loop:
            lane = self._by_loop(loop.indices, self.layout.lane_basis)
            first = {name: self._first(tile, [group[name], subgroup[name], lane[name]]) for name, tile in self.layout.kept.items()}
            tile = self.layout.columns
            column = apply((symbol(0) * tile.lanes + symbol(1)) * tile.elements, [subgroup[K], lane[K]])
            flat = self._flat(loop.indices, counts)
            totals = {
                place: combine_lanes(self.problem, self.layout, self.target, total, flat)
                for place, total in self.held.fold(self.steps(x, {**first, K: column}, group)).items()
            }
            lines = self._partial_lines(subgroup, lane) if self.layout.merges else self._result_lines({**first, **self._piece(group)})
            loop.give(self.store(loop.whole, totals, lines, lane))
        return results(loop)

    def steps(self, x: Arrays, first: Ids, group: Ids) -> list[Values]:
        """What a thread holds after all steps of the workgroup. `unroll` steps are read before the first of them is combined."""
        layout, held = self.layout, self.held
        accumulators = held.start()
        whole, rest = divmod(layout.full_steps, layout.unroll)
        if whole:
            loop = scf.ForOp(*rounds(layout, group, layout.unroll), index(1), held.flat(accumulators))
            with ir.InsertionPoint(loop.body):
                number = apply(symbol(0) * layout.unroll, [loop.induction_variable])
                inside = held.combine_steps(held.nested(loop.inner_iter_args), x, first, number, layout.unroll)
                scf.YieldOp(held.flat(inside))
            accumulators = held.nested(loop.results)

        def end(carried: list[ir.Value]) -> list[ir.Value]:
            values = held.nested(carried)
            if rest:
                values = held.combine_steps(values, x, first, index(whole * layout.unroll), rest)
            if layout.column_tail:
                values = held.combine_last_step(values, x, first)
            return held.flat(values)

        return held.nested(at_the_end(layout, group, held.flat(accumulators), end)) if rest or layout.column_tail else accumulators

    @staticmethod
    def _piece(group: Ids) -> Ids:
        return {PIECES: group[PIECES]} if PIECES in group else {}

    def store(self, outs: Outs, totals: Totals, lines: list[Line], lane: Ids) -> Outs:
        """The first lane along K writes the thread's partials as they are, or its results finished."""
        if self.layout.columns.lanes == 1:
            return self._write(outs, totals, lines)
        writes = arith.CmpIOp(arith.CmpIPredicate.eq, lane[K], index(0)).result
        branch = scf.IfOp(writes, [out.type for out in outs], has_else=True)
        with ir.InsertionPoint(branch.then_block):
            scf.YieldOp(self._write(outs, totals, lines))
        with ir.InsertionPoint(branch.else_block):
            scf.YieldOp(outs)
        return list(branch.results)

    def _partial_lines(self, subgroup: Ids, lane: Ids) -> list[Line]:
        """Where each of the thread's results goes among the partials."""
        first = {n: apply((symbol(0) * t.lanes + symbol(1)) * t.held, [subgroup[n], lane[n]]) for n, t in self.layout.kept.items()}
        return [
            Line(((row, inner),), [*moved(first, {ROWS: row, INNER: inner}).values(), subgroup[K]])
            for row in range(self.layout.rows.held)
            for inner in range(self.layout.inner.held)
        ]

    def _result_lines(self, first: Ids) -> list[Line]:
        """Where the thread's results go, as long as vectors are: side by side are elements of the inner loop, or else rows."""
        rows, inner, dimensions = self.layout.rows.held, self.layout.inner.held, self.problem.result_memory
        most = self.target.longest_vector(max(result.bytes for result in self.problem.results))
        if [dimension.loop for dimension in dimensions] == [ROWS]:
            parts = [tuple((start + i, 0) for i in range(length)) for start, length in chunks(rows, most)]
        else:
            parts = [tuple((row, start + i) for i in range(length)) for row in range(rows) for start, length in chunks(inner, most)]
        return [Line(places, indices(dimensions, moved(first, dict(zip((ROWS, INNER), places[0], strict=True))))) for places in parts]

    def merge(self, partials: Outs, group: Ids, outs: Outs) -> Outs:
        """Folds the partials of each result in ascending order, spread over the threads of the workgroup."""
        layout = self.layout
        each = next(n for n in range(1, layout.slots + 1) if layout.slots % n == 0 and layout.slots // n <= layout.workgroup_size)
        with forall([layout.slots // each], ["#gpu.thread<linear_dim_0>"], outs) as loop:
            written = loop.whole
            for i in range(each):
                slot, at = self._slot(apply(symbol(0) * each + i, loop.indices), group)
                total = arithmetic.fold(self.problem, self.target, self._subgroups(partials, slot))
                finished = arithmetic.finish(self.problem, self.target, total)
                written = [put([value], out, at) for value, out in zip(finished, written, strict=True)]
            loop.give(written)
        return results(loop)

    def _subgroups(self, partials: Outs, slot: list[ir.Value]) -> list[Values]:
        """The partials of one result."""
        found = []
        most = self.target.longest_vector(max(element.bytes for element in self.problem.accumulators))
        for first, length in chunks(self.layout.columns.subgroups, most):
            parts = zip(partials, self.problem.accumulators, strict=True)
            line = tuple(read(partial, [*slot, index(first)], [length], element) for partial, element in parts)
            found += [arithmetic.extract(line, i) for i in range(length)]
        return found

    def _slot(self, slot: ir.Value, group: Ids) -> tuple[list[ir.Value], list[ir.Value]]:
        """Indices of a slot among the partials, and of the result that it is for."""
        tiles = self.layout.kept
        where, at, step = [], {}, math.prod(tile.slots for tile in tiles.values())
        for name, tile in tiles.items():
            step //= tile.slots
            place = apply(ir.AffineExpr.get_floor_div(symbol(0), step) % tile.slots, [slot])
            thread = ir.AffineExpr.get_floor_div(symbol(1), tile.held)
            first = self._clamped(symbol(0) * tile.size + thread * tile.elements, tile, [group[name], place])
            where.append(place)
            at[name] = apply(symbol(0) + symbol(1) % tile.held, [first, place])
        return where, indices(self.problem.result_memory, {**at, **self._piece(group)})

    def _write(self, outs: Outs, totals: Totals, lines: list[Line]) -> Outs:
        for places, at in lines:
            values = [totals[place] for place in places]
            if not self.layout.merges:
                values = [arithmetic.finish(self.problem, self.target, value) for value in values]
            outs = [put(line, out, at) for line, out in zip(zip(*values, strict=True), outs, strict=True)]
        return outs

    def _first(self, tile: Tile, ids: list[ir.Value]) -> ir.Value:
        """The first element of a kept loop that the thread of these ids (workgroup, subgroup, lane) holds."""
        position = symbol(0) * tile.size + (symbol(1) * tile.lanes + symbol(2)) * tile.elements
        return self._clamped(position, tile, ids)

    @staticmethod
    def _clamped(position: ir.AffineExpr, tile: Tile, ids: list[ir.Value]) -> ir.Value:
        return clamp(position, tile.extent - tile.held, ids) if tile.remainder else apply(position, ids)

    def _by_loop(self, ids: list[ir.Value], basis: Basis) -> Ids:
        _, mapping = basis
        return {name: ids[mapping[i]] for i, (name, _) in enumerate(self.layout.tiles)}

    @staticmethod
    def _flat(ids: list[ir.Value], counts: Sequence[int]) -> ir.Value:
        expression = symbol(0)
        for i in range(1, len(counts)):
            expression = expression * counts[i] + symbol(i)
        return apply(expression, ids)


def _linear(unit: str, digits: int) -> list[str]:
    return [f"#gpu.{unit}<linear_dim_{digits - 1 - i}>" for i in range(digits)]
