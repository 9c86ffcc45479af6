"""Which thread holds which elements: the numbers that the schedule, the verifier, the report and the reference all read.

Along each canonical loop a tile is `subgroups x lanes x elements`, outermost first. The element that step i, subgroup s,
lane l and element e hold along the reduced loop is column

    ((i * S + s) * L + l) * E + e

`unroll` steps are taken at a time: that changes how many loads are in flight, never the column or the order.
"""

from __future__ import annotations

from dataclasses import dataclass

from .problem import Problem
from .tuning import Tuning


@dataclass(frozen=True)
class Tile:
    """How one canonical loop is spread: `subgroups x lanes x elements` of it make a tile."""

    extent: int
    subgroups: int
    lanes: int
    elements: int

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


@dataclass(frozen=True)
class Layout:
    """The whole distribution. `rows` is None for a 1-D problem, whose only loop is the reduced one.

    >>> from iree_reduce_plugin.problem import Problem
    >>> layout = Layout.of(Problem.of((4, 4096)), Tuning.parse({"workgroup": [4, 0], "partial_reduction": [0, 256],
    ...     "lane_basis": [[4, 16], [0, 1]], "subgroup_basis": [[1, 4], [0, 1]]}))
    >>> layout.columns.elements, layout.steps, layout.workgroup_size, layout.shared_memory_bytes
    (4, 16, 256, 64)
    """

    rows: Tile | None
    columns: Tile
    unroll: int
    subgroup_size: int
    workgroup_size: int
    workgroups: int
    accumulator_bytes: int
    has_epilogue: bool

    @staticmethod
    def of(problem: Problem, tuning: Tuning) -> Layout:
        """From a tuning that `verify` accepts for the problem."""
        full = tuning.resolve(problem)
        *parallel, reduced = range(len(problem.loops))
        tiles = [
            Tile(problem.loops[i], full.subgroups(i), full.lanes(i), full.thread[i])  # type: ignore[index]
            for i in range(len(problem.loops))
        ]
        rows, columns = (tiles[0] if parallel else None), tiles[reduced]
        return Layout(
            rows=rows,
            columns=columns,
            unroll=full.reduction_tile[reduced] // columns.size,
            subgroup_size=full.subgroup_size,  # type: ignore[arg-type]
            workgroup_size=full.workgroup_size[0],  # type: ignore[index]
            workgroups=rows.count if rows else 1,
            accumulator_bytes=problem.accumulator.bytes,
            has_epilogue=problem.has_epilogue,
        )

    @property
    def row_tile(self) -> int:
        """Rows of one workgroup."""
        return self.rows.size if self.rows else 1

    @property
    def thread_rows(self) -> int:
        return self.rows.elements if self.rows else 1

    @property
    def row_lanes(self) -> int:
        return self.rows.lanes if self.rows else 1

    @property
    def row_subgroups(self) -> int:
        return self.rows.subgroups if self.rows else 1

    @property
    def steps(self) -> int:
        """Steps of `columns.size` that cover K, the partial one included."""
        return self.columns.count

    @property
    def full_steps(self) -> int:
        return self.columns.extent // self.columns.size

    @property
    def row_tail(self) -> bool:
        return self.rows is not None and self.rows.remainder != 0

    @property
    def column_tail(self) -> bool:
        return self.columns.remainder != 0

    @property
    def merges(self) -> bool:
        """Whether results meet in shared memory: partials of several subgroups, or an epilogue that other threads apply."""
        return self.columns.subgroups > 1 or self.has_epilogue

    @property
    def merge_rows(self) -> int:
        """Rows whose partials one thread merges: as few as the workgroup's threads allow."""
        tile = self.row_tile
        return next(n for n in range(1, tile + 1) if tile % n == 0 and tile // n <= self.workgroup_size)

    @property
    def shared_memory_bytes(self) -> int:
        return self.row_tile * self.columns.subgroups * self.accumulator_bytes if self.merges else 0

    @property
    def accumulators(self) -> int:
        """Values of the accumulator's type that one lane holds."""
        return self.thread_rows * self.columns.elements
