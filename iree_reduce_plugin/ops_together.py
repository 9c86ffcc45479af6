"""Several reductions in one pass over memory: an op whose accumulators are those of its parts, one after the other."""

from __future__ import annotations

import itertools
import typing
from collections.abc import Sequence
from typing import Any

from .element_types import ElementType
from .errors import InputError, check
from .expressions import Value, Values
from .op import About, Op, Types


def together(parts: Sequence[Op]) -> Op:
    """One op that gives the results of all `parts`, each as that op alone does, for the type that elements are computed in.

    >>> from iree_reduce_plugin.ops import OPS
    >>> together([OPS["min"], OPS["sum"]]).result(ElementType("i32"))
    (ElementType(name='i32'), ElementType(name='i64'))
    """
    check(len({part.name for part in parts}) == len(parts), f"op {[part.name for part in parts]}: each op once", InputError)
    check(len(parts) <= 8, f"op: {len(parts)} ops in one pass are above the 8 that fit a kernel", InputError)

    def split(values: Values) -> list[Values]:
        found, first = [], 0
        for part in parts:
            count = len(part.accumulators(_ANY))
            found.append(values[first : first + count])
            first += count
        return found

    def each(a: Values, b: Values) -> Values:
        return _joined(part.combine(one, other) for part, one, other in zip(parts, split(a), split(b), strict=True))

    def identity(types: Types) -> tuple[Any, ...]:
        return _joined(part.identity(own) for part, own in zip(parts, split(types), strict=True))  # type: ignore[arg-type]

    def cast(x: Value, part: Op) -> Value:
        chosen = part.loop_type(x.element)
        return x.cast(chosen).cast(chosen.accumulator)

    def prepare(x: Value, column: Value) -> Values:
        return _joined(part.prepare(cast(x, part), column) if part.takes_index else part.prepare(cast(x, part)) for part in parts)

    def accumulate(held: Values, x: Value, column: Value) -> Values:
        return _joined(part.step(own, cast(x, part), column) for part, own in zip(parts, split(held), strict=True))

    def finish(totals: Values, about: About) -> Values:
        return tuple(_finished(part, own, about) for part, own in zip(parts, split(totals), strict=True))

    return Op(
        ",".join(part.name for part in parts),
        ", ".join(part.numpy for part in parts),
        each,
        identity,
        prepare,
        accumulate,
        finish,
        accumulators=lambda element: _joined(part.accumulators(part.loop_type(element).accumulator) for part in parts),
        result=lambda element: typing.cast(Types, tuple(part.result(part.loop_type(element)) for part in parts)),
        empty="error" if any(part.empty == "error" for part in parts) else "identity",
        takes_floats=all(part.takes_floats for part in parts),
        takes_bools=all(part.takes_bools for part in parts),
        takes_dtype=False,
        takes_initial=False,
        takes_index=True,
        takes_ddof=any(part.takes_ddof for part in parts),
        plain=",".join(part.asked for part in parts),
    )


def _finished(part: Op, own: Values, about: About) -> Value:
    """What NumPy joins by itself does: +0 to a sum of floats. The others are the identity, and change nothing."""
    element = part.loop_type(about.element)
    default = part.default_initial(element)
    if default is not None and own[0].element.is_float and part.adds:
        own = part.combine(part.join(own[0].constant(default)), own)
    return typing.cast(Value, part.finish(own, About(about.count, element.accumulator, about.ddof)))  # an op of one result


_ANY = ElementType("f32")  # how many accumulators an op has doesn't depend on it


def _joined(groups: Any) -> tuple[Any, ...]:
    return tuple(itertools.chain.from_iterable(groups))
