"""For targets that take short vectors of one dimension only (SPIR-V): what a thread computes, cut into such, unrolled.

Each op is tiled over all the dimensions that are too long at once, so that the pieces are read from and written to the accumulators
themselves; nested tilings would make a copy of each row, and rows would not stay in registers.
"""

from __future__ import annotations

from ..layout import Layout
from ..targets import Target
from . import transform_ops as t
from .functions import vector_length

Cuts = dict[int, tuple[int, int]]  # dimension -> its extent, the length of a piece


def cut(op: t.Handle, cuts: Cuts) -> None:
    """Tiles the op's dimensions to pieces, and unrolls."""
    longer = {d: cuts[d] for d in sorted(cuts) if cuts[d][0] > cuts[d][1]}
    if not longer:
        return
    sizes = [longer[d][1] if d in longer else 0 for d in range(max(longer) + 1)]
    _, loops = t.tile_to_for(op, sizes)
    counts = [extent // length for extent, length in longer.values()]
    for loop, count in reversed(list(zip(loops, counts, strict=True))):  # inner first: the outer loop copies what is in it
        t.unroll(loop, count)


def held_cuts(layout: Layout, target: Target, elements_dimension: int) -> Cuts:
    """Of what a thread holds: `[rows, ..., E]`, a row at a time."""
    elements = layout.columns.elements
    rows: Cuts = {0: (layout.thread_rows, 1)} if layout.rows else {}
    return rows | {elements_dimension: (elements, vector_length(elements, target))}


def merge_cuts(layout: Layout, target: Target) -> Cuts:
    """Of the partials that a thread merges: `[rows, S]`, a row at a time."""
    subgroups = layout.columns.subgroups
    rows: Cuts = {0: (layout.merge_rows, 1)} if layout.rows else {}
    return rows | {len(rows): (subgroups, vector_length(subgroups, target))}
