"""Rows to workgroups: the stage that the schedules of all targets begin with."""

from __future__ import annotations

from ..layout import Layout
from . import transform_ops as t

GENERIC, EPILOGUE = "linalg.generic", "epilogue"


def to_workgroups(function: t.Handle, layout: Layout, reduction: t.Handle, *, epilogue: bool) -> tuple[t.Handle, t.Handle, t.Handle | None]:
    """Gives the reduction and its fill inside the workgroup, and the loop over workgroups (None for a 1-D problem)."""
    fill = t.producer(reduction, 1)
    if layout.rows is None:
        return reduction, fill, None
    last = t.find(function, GENERIC, EPILOGUE) if epilogue else reduction
    inside, workgroups = t.tile_to_forall(last, [layout.row_tile], ["#gpu.block<x>"])
    t.populate_workgroup_count(workgroups)
    if epilogue:
        (reduction, fill), workgroups = t.fuse([reduction, fill], workgroups)
    else:
        reduction = inside
        (fill,), workgroups = t.fuse([fill], workgroups)
    return reduction, fill, workgroups
