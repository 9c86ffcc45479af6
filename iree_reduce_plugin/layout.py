"""Which thread holds which elements: the numbers that the schedule, the verifier, the report and the reference all read.

Along each canonical loop a tile is `subgroups x lanes x elements`, outermost first. The element that step i, subgroup s,
lane l and element e hold along the reduced loop is column

    ((i * S + s) * L + l) * E + e

Where K is split over workgroups, piece g has the steps from g * piece_steps on, and the last one the partial step as well.
`unroll` steps are taken at a time: that changes how many loads are in flight, never the column or the order. Along a loop that is
kept, the last tile overlaps its neighbour where tiles don't divide the loop: a thread then computes a row that another computes, too.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .loops import INNER, PIECES, ROWS, K
from .problem import Problem
from .tuning import Tuning

SHARED_ALIGNMENT = 64  # bytes; IREE's, of each buffer in workgroup memory

Basis = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class Tile:
    """How one canonical loop is spread: `subgroups x lanes x elements` of it make a tile."""

    extent: int
    subgroups: int
    lanes: int
    elements: int
    lane_stride: int = 1  # of the loop's neighbouring lanes, in the subgroup

    @property
    def size(self) -> int:
        return self.subgroups * self.lanes * self.elements

    @property
    def count(self) -> int:
        """Tiles that cover the loop."""
        return -(-self.extent // self.size)

    @property
    def remainder(self) -> int:
        """Extent of the last, partial tile; 0 where tiles divide the loop."""
        return self.extent % self.size

    @property
    def held(self) -> int:
        """Elements of a kept loop that a thread holds: never more than there are."""
        return min(self.elements, self.extent)

    @property
    def slots(self) -> int:
        """Places for what a workgroup's threads hold along a kept loop."""
        return self.subgroups * self.lanes * self.held


@dataclass(frozen=True)
class Layout:
    """The whole distribution. `tiles` has one Tile for each canonical loop there is, by name, the reduced loop last.

    >>> from iree_reduce_plugin.problem import Problem
    >>> layout = Layout.of(Problem.of((4, 4096)), Tuning.parse({"workgroup": [4, 0], "partial_reduction": [0, 256],
    ...     "lane_basis": [[4, 16], [0, 1]], "subgroup_basis": [[1, 4], [0, 1]]}))
    >>> layout.columns.elements, layout.steps, layout.workgroup_size, layout.shared_memory_bytes
    (4, 16, 256, 64)
    """

    tiles: tuple[tuple[str, Tile], ...]
    unroll: int
    subgroup_size: int
    workgroup_size: int
    lane_basis: Basis
    subgroup_basis: Basis
    accumulator_bytes: int  # of all accumulators of one result
    accumulator_count: int
    piece_steps: int = 0  # steps to a piece of K; 0: K is not split

    @staticmethod
    def of(problem: Problem, tuning: Tuning) -> Layout:
        """From a tuning that `verify` accepts for the problem."""
        full = tuning.resolve(problem)
        lane_basis: Basis = full.lane_basis  # type: ignore[assignment]
        counts, mapping = lane_basis
        tiles = [
            (
                name,
                Tile(extent, full.subgroups(i), full.lanes(i), full.thread[i], math.prod(counts[mapping[i] + 1 :])),  # type: ignore[index]
            )
            for i, (name, extent) in enumerate(problem.named_loops.items())
        ]
        return Layout(
            tiles=tuple(tiles),
            unroll=full.reduction_tile[-1] // tiles[-1][1].size,
            subgroup_size=full.subgroup_size,  # type: ignore[arg-type]
            workgroup_size=full.workgroup_size[0],  # type: ignore[index]
            lane_basis=lane_basis,
            subgroup_basis=full.subgroup_basis,  # type: ignore[arg-type]
            accumulator_bytes=sum(element.bytes for element in problem.accumulators),
            accumulator_count=len(problem.accumulators),
            piece_steps=full.split_reduction[-1] // tiles[-1][1].size if full.split_reduction else 0,
        )

    @functools.cached_property
    def _by_name(self) -> dict[str, Tile]:
        return dict(self.tiles)

    @property
    def columns(self) -> Tile:
        """The tile of the reduced loop."""
        return self._by_name[K]

    @property
    def kept(self) -> dict[str, Tile]:
        """The tiles of the loops that are kept, in order."""
        return {name: tile for name, tile in self.tiles if name != K}

    @property
    def rows(self) -> Tile:
        """The tile of the outer rows; one row where there is none."""
        return self._by_name.get(ROWS, ONE)

    @property
    def inner(self) -> Tile:
        """The tile of the kept loop that is innermost in memory; one element where there is none."""
        return self._by_name.get(INNER, ONE)

    @property
    def workgroups(self) -> tuple[int, ...]:
        """Workgroups along each kept loop, and along the pieces of K where it is split."""
        pieces = (self.pieces,) if self.pieces > 1 else ()
        return (*(tile.count for tile in self.kept.values()), *pieces)

    @property
    def pieces(self) -> int:
        """Workgroups that share the columns of a result."""
        return -(-self.full_steps // self.piece_steps) if self.piece_steps else 1

    @property
    def numbered(self) -> tuple[str, ...]:
        """The loops that `workgroups` counts."""
        return (*self.kept, *((PIECES,) if self.pieces > 1 else ()))

    @property
    def workgroup_count(self) -> list[int]:
        """Workgroups along x, y and z: the innermost loop along x."""
        counts = [*reversed(self.workgroups), 1, 1, 1]
        return counts[:3]

    @property
    def slots(self) -> int:
        """Results of one workgroup, and places for their partials."""
        return math.prod(tile.slots for tile in self.kept.values())

    @property
    def steps(self) -> int:
        """Steps of `columns.size` that cover K, the partial one included."""
        return self.columns.count

    @property
    def full_steps(self) -> int:
        return self.columns.extent // self.columns.size

    @property
    def column_tail(self) -> bool:
        return self.columns.remainder != 0

    @property
    def merges(self) -> bool:
        """Whether the partials of several subgroups meet in shared memory."""
        return self.columns.subgroups > 1

    @property
    def shared_memory_bytes(self) -> int:
        return self.slots * self.columns.subgroups * self.accumulator_bytes if self.merges else 0

    @property
    def shared_memory_limit(self) -> int:
        """What it may take where the partials of several accumulators begin at multiples of SHARED_ALIGNMENT."""
        return self.shared_memory_bytes + (SHARED_ALIGNMENT * (self.accumulator_count - 1) if self.merges else 0)

    def holds(self, workgroup: tuple[int, ...], thread: int) -> dict[str, np.ndarray[Any, np.dtype[np.int64]]]:
        """The elements that a thread reads, as indices of each canonical loop.

        workgroup: its number along each of the loops that `workgroups` counts. thread: 0 to workgroup_size - 1.
        Of a kept loop an array [held]; of K one of [steps, elements], -1 where the last step has none. ValueError outside of these.

        >>> from iree_reduce_plugin.problem import Problem
        >>> layout = Layout.of(Problem.of((5000,)), Tuning.parse({"thread": [4], "lane_basis": [[64], [0]], "subgroup_basis": [[4], [0]]}))
        >>> layout.holds((), 65)["K"].tolist()[::2]
        [[260, 261, 262, 263], [2308, 2309, 2310, 2311], [4356, 4357, 4358, 4359]]
        """
        subgroup, lane = divmod(thread, self.subgroup_size)
        digits = [np.unravel_index(id_, counts) for id_, (counts, _) in ((subgroup, self.subgroup_basis), (lane, self.lane_basis))]
        kept = dict(zip(self.numbered, workgroup, strict=True))
        piece = kept.get(PIECES, 0)
        steps = np.arange(piece * self.piece_steps, self.steps if piece == self.pieces - 1 else (piece + 1) * self.piece_steps)
        found = {}
        for i, (name, tile) in enumerate(self.tiles):
            own, across = (
                int(digit[mapping[i]]) for digit, (_, mapping) in zip(digits, (self.subgroup_basis, self.lane_basis), strict=True)
            )
            first = (own * tile.lanes + across) * tile.elements
            if name == K:
                columns = steps[:, None] * tile.size + first + np.arange(tile.elements)
                found[name] = np.where(columns < tile.extent, columns, -1)
            else:
                if not 0 <= kept[name] < tile.count:
                    raise ValueError(f"workgroup {workgroup}: along {name} there are {tile.count}")
                found[name] = min(kept[name] * tile.size + first, tile.extent - tile.held) + np.arange(tile.held)
        return found

    @property
    def accumulators(self) -> int:
        """Values of the accumulator's type that one lane holds."""
        return self.rows.held * self.inner.held * self.columns.elements


ONE = Tile(1, 1, 1, 1)
