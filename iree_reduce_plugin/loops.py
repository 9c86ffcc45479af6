"""The canonical loops of a reduction, and where their points lie in memory.

Neighbouring axes of one kind, kept or reduced, are one loop of memory; axes of extent 1 are gone. What a tuning speaks of are at most
three loops: the kept ones outside, flattened (rows); the kept one that is innermost in memory, if it is (inner); the reduced ones,
flattened (K). A flattened loop of several in memory counts through them as NumPy does, the last the fastest.

    (4, 4096), axis -1     memory rows 4, K 4096            loops (rows, K)
    (4096, 512), axis 0    memory K 4096, inner 512         loops (inner, K)
    (8, 100, 6), axis 1    memory rows 8, K 100, inner 6    loops (rows, inner, K)
    (2, 3, 4, 5), (0, 2)   memory K 2, rows 3, K 4, inner 5 loops (rows=3, inner=5, K=8)
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

ROWS, INNER, K = "rows", "inner", "K"
PIECES = "pieces"  # of K, where it is split over workgroups: no loop of the reduction's own
NAMES = (ROWS, INNER, K)


@dataclass(frozen=True)
class Dimension:
    """A dimension of the array in memory, outermost first: the loop it belongs to, and the step of that loop that moves it by one."""

    loop: str
    extent: int
    step: int


def in_memory(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[Dimension, ...]:
    """The array's dimensions as loops.

    >>> [(d.loop, d.extent, d.step) for d in in_memory((2, 3, 4, 5), (0, 2))]
    [('K', 2, 4), ('rows', 3, 1), ('K', 4, 1), ('inner', 5, 1)]
    """
    merged: list[list[int]] = []  # [whether it is reduced, extent]
    for axis, extent in enumerate(shape):
        if extent == 1:
            continue
        reduced = axis in axes
        if merged and merged[-1][0] == reduced:
            merged[-1][1] *= extent
        else:
            merged.append([reduced, extent])
    loops = [K if reduced else ROWS for reduced, _ in merged]
    if K in loops and loops[-1] == ROWS:
        loops[-1] = INNER
    dimensions: list[Dimension] = []
    for loop, (_, extent) in reversed(list(zip(loops, merged, strict=True))):
        dimensions.insert(0, Dimension(loop, extent, extent_of(loop, dimensions)))
    return tuple(dimensions)


def extent_of(loop: str, dimensions: Iterable[Dimension]) -> int:
    """How long a canonical loop is: 1 where there is none.

    >>> extent_of("K", in_memory((2, 3, 4, 5), (0, 2)))
    8
    """
    return math.prod(d.extent for d in dimensions if d.loop == loop)
