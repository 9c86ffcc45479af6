"""The tuning's tree over accumulators in memory, `[S, L, E]`, joined in place: as loops, whose code does not grow with their number."""

from __future__ import annotations

from collections.abc import Callable

from iree.compiler import ir
from iree.compiler.dialects import scf

from ..layout import Tile
from ..mlir import index
from .payload import apply, symbol

Carried = list[ir.Value]
Join = Callable[[ir.Value, ir.Value, Carried], Carried]  # (place, other place, tensors): what is at the other joins what is at the place


def join_in_memory(tile: Tile, carried: Carried, join: Join) -> Carried:
    """Elements into each lane's first, lanes level by level, subgroups into the first, ascending; the total is at place 0."""
    lanes = tile.subgroups * tile.lanes
    if tile.elements > 1:

        def element(number: ir.Value, held: Carried) -> Carried:
            return count(0, lanes, held, lambda lane, inner: _join_at(lane, tile.elements, number, inner, join))

        carried = count(1, tile.elements, carried, element)
    for level in range(tile.lanes.bit_length() - 1):
        carried = count(0, lanes >> level + 1, carried, _level(tile.elements << level, join))
    if tile.subgroups > 1:
        step = tile.lanes * tile.elements
        carried = count(1, tile.subgroups, carried, lambda s, held: join(index(0), apply(symbol(0) * step, [s]), held))
    return carried


def _level(stride: int, join: Join) -> Callable[[ir.Value, Carried], Carried]:
    return lambda lane, held: _join_at(lane, 2 * stride, index(stride), held, join)


def _join_at(number: ir.Value, stride: int, distance: ir.Value, held: Carried, join: Join) -> Carried:
    place = apply(symbol(0) * stride, [number])
    return join(place, apply(symbol(0) + symbol(1), [place, distance]), held)


def count(first: int, end: int, carried: Carried, body: Callable[[ir.Value, Carried], Carried]) -> Carried:
    """`body(number, carried)` for each number from `first` to before `end`."""
    if end == first + 1:
        return body(index(first), carried)
    loop = scf.ForOp(index(first), index(end), index(1), carried)
    with ir.InsertionPoint(loop.body):
        scf.YieldOp(body(loop.induction_variable, list(loop.inner_iter_args)))
    return list(loop.results)
