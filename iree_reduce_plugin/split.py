"""A reduction whose K is split over workgroups: two kernels, and what each of them computes, as problems of their own.

The first reduces each piece of K to its accumulators, piece by piece; the second merges these, along a K that counts the pieces, and
finishes. So few rows of a long K use the whole device. Where the cuts are is the tuning's `split_reduction`, so that the order of
additions is the same on every device.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from dataclasses import dataclass
from typing import Any

from .element_types import ElementType
from .expressions import Value, Values
from .layout import Layout
from .loops import INNER, PIECES, Dimension, K, in_memory
from .op import About
from .problem import Problem


@dataclass(frozen=True)
class Pieces(Problem):
    """The accumulators of each piece of K: one dimension more, beside the kept ones that lie as the array's do."""

    pieces: int = 1

    @staticmethod
    def part_of(problem: Problem, layout: Layout) -> Pieces:
        return Pieces(**{**_fields(problem), "initial": None, "finalize": None}, pieces=layout.pieces)

    @functools.cached_property
    def result_memory(self) -> tuple[Dimension, ...]:
        return _beside(_kept(self), Dimension(PIECES, self.pieces, 1))

    @property
    def results(self) -> tuple[ElementType, ...]:
        return self.accumulators

    def finish(self, totals: Values) -> Values:
        return totals

    @functools.cached_property
    def taken(self) -> tuple[int, ...] | None:
        return tuple(range(len(self.accumulators)))


@dataclass(frozen=True)
class Merge(Problem):
    """The pieces' accumulators -> the results."""

    pieces: int = 1

    @staticmethod
    def part_of(problem: Problem, layout: Layout) -> Merge:
        return Merge(**_fields(problem), pieces=layout.pieces)

    @functools.cached_property
    def memory(self) -> tuple[Dimension, ...]:
        return _beside(_kept(self), Dimension(K, self.pieces, 1))

    @functools.cached_property
    def columns(self) -> int:
        return self.pieces

    @property
    def inputs(self) -> tuple[ElementType, ...]:
        return self.accumulators

    @property
    def takes_index(self) -> bool:
        return False

    def step(self, accumulators: Values, x: Values, column: Value | None = None) -> Values:
        return self.op.combine(accumulators, x)

    @property
    def about(self) -> About:
        return About(math.prod(self.shape[a] for a in self.axes), self.computed, self.ddof)


def merge_layout(layout: Layout) -> Layout:
    """How the second kernel is spread: the same subgroups and lanes as the first one's, with one piece a lane in a step."""
    merged = dataclasses.replace(layout.columns, extent=layout.pieces, elements=1)
    return dataclasses.replace(layout, tiles=(*layout.kept.items(), (K, merged)), unroll=1, piece_steps=0)


def _kept(problem: Problem) -> tuple[Dimension, ...]:
    return tuple(d for d in in_memory(problem.shape, problem.axes) if d.loop != K)


def _beside(kept: tuple[Dimension, ...], dimension: Dimension) -> tuple[Dimension, ...]:
    """Innermost, so that a merge reads neighbours; outermost where the results of one piece lie side by side along the inner loop."""
    return (dimension, *kept) if kept and kept[-1].loop == INNER else (*kept, dimension)


def _fields(problem: Problem) -> dict[str, Any]:
    return {field.name: getattr(problem, field.name) for field in dataclasses.fields(Problem)}
