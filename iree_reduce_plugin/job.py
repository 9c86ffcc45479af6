"""Everything one compilation depends on, as plain data: it crosses to the compiler's process and makes the cache key."""

from __future__ import annotations

from dataclasses import dataclass

from .layout import Layout
from .problem import Problem
from .split import Merge, Pieces, merge_layout
from .targets import Target
from .tuning import Tuning

STRATEGIES = ("subgroup", "iree", "default")


@dataclass(frozen=True)
class Job:
    """One kernel to compile.

    strategy: `subgroup` (our schedule), `iree` (the tuning as attributes, through IREE's VectorDistribute) or `default`
    (no tuning: whatever IREE does). tuning is resolved, and None for `default` and where nothing is left to reduce (K = 1).
    """

    problem: Problem
    tuning: Tuning | None
    target: Target
    strategy: str = "subgroup"

    @property
    def has_schedule(self) -> bool:
        """Whether a schedule of ours lowers it."""
        return self.strategy == "subgroup" and self.tuning is not None

    @property
    def layout(self) -> Layout | None:
        return None if self.tuning is None else Layout.of(self.problem, self.tuning)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The kernels of a job that has a schedule, in the order in which they run."""
        layout = self.layout
        if layout is None:
            raise ValueError(f"{self.problem}: a schedule needs a tuning")
        if layout.pieces == 1:
            return (Part("reduction", self.problem, self.target, layout),)
        return (
            Part("pieces", Pieces.part_of(self.problem, layout), self.target, layout),
            Part("merge", Merge.part_of(self.problem, layout), self.target, merge_layout(layout)),
        )


@dataclass(frozen=True)
class Part:
    """One kernel. stage: the marker of the op that it takes the place of."""

    stage: str
    problem: Problem
    target: Target
    layout: Layout
