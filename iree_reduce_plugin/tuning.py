"""`Tuning`: how a reduction is spread over workgroups, subgroups, lanes and steps, in IREE's terms.

The lists have one entry for each canonical loop of the problem, the reduced loop last (`problem.py`). A basis is
`[[counts], [mapping]]`, and loop i is spread over `counts[mapping[i]]`, as IREE's code has it (its documentation states the inverse).
A `Tuning` is well formed by construction; whether it fits a problem is for `resolve`, and a target for `verify`.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass, fields
from numbers import Integral
from typing import TYPE_CHECKING, Any

from .errors import InputError, TuningError, check
from .resolve import complete, on_loops
from .tuning_source import listed, read, show

if TYPE_CHECKING:
    from .problem import Problem

Tile = tuple[int, ...]
Basis = tuple[tuple[int, ...], tuple[int, ...]]

SPELLINGS = {  # spelling: (name of the lane basis, pipeline)
    "current": ("lane_basis", "#iree_gpu.pipeline<VectorDistribute>"),
    "original": ("thread_basis", "LLVMGPUVectorDistribute"),
}
_MAX = 2**31 - 1  # what IREE's code can count with


@dataclass(frozen=True)
class Tuning:
    """One tuning. What is left out (None) follows from the rest: `resolve` fills it in, `str` shows it.

    workgroup: tile of each loop that one workgroup owns; 0: all of a parallel loop. Always 0 on the reduced loop.
    partial_reduction, reduction: tile of the reduced loop, one or the other; steps x subgroups x lanes x elements.
    thread: elements a lane holds of each loop, 0: what follows from the tile.
    lane_basis, subgroup_basis: ((counts...), (mapping...)).
    split_reduction: columns of K to a workgroup, of a K that is split over several; 0 on the other loops. None: K is not split.

    >>> tuning = Tuning.parse({"reduction": [1024], "lane_basis": [[64], [0]], "subgroup_basis": [[4], [0]]})
    >>> print(tuning)
    reduction [1024], lane_basis [[64], [0]], subgroup_basis [[4], [0]]; derived: workgroup [0], thread [4], workgroup_size [256, 1, 1], \
subgroup_size 64 (1024 = 4 subgroups x 64 lanes x 4 elements)
    """

    workgroup: Tile | None = None
    partial_reduction: Tile | None = None
    reduction: Tile | None = None
    thread: Tile | None = None
    lane_basis: Basis | None = None
    subgroup_basis: Basis | None = None
    workgroup_size: Tile | None = None
    subgroup_size: int | None = None
    split_reduction: Tile | None = None

    def __post_init__(self) -> None:
        for name in ("workgroup", "partial_reduction", "reduction", "thread", "split_reduction"):
            self._set(name, _integers(name, getattr(self, name), 0))
        for name in ("lane_basis", "subgroup_basis"):
            self._set(name, _basis(name, getattr(self, name)))
        size = _integers("workgroup_size", self.workgroup_size, 1)
        if size is not None:
            check(len(size) <= 3, f"workgroup_size {list(size)} has {len(size)} entries: give at most 3, e.g. [256, 1, 1]")
            self._set("workgroup_size", size + (1,) * (3 - len(size)))
        if self.subgroup_size is not None:
            self._set("subgroup_size", _integer("subgroup_size", self.subgroup_size, 1))
        check(
            self.partial_reduction is None or self.reduction is None,
            f"partial_reduction {show(self.partial_reduction)} and reduction {show(self.reduction)} name one tile twice: give only one",
        )

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)  # the dataclass is frozen, and this is still its construction

    @staticmethod
    def parse(spec: object) -> Tuning:
        """From a Tuning, a dict, a JSON string, the path of a JSON file, or a pasted MLIR attribute in either spelling.

        Raises TuningError, in one line, for anything that can't be read or says what this package doesn't know.

        >>> Tuning.parse('#iree_gpu.lowering_config<{workgroup = [0], reduction = [1024], thread_basis = [[64], [0]]}>').to_json()
        '{"workgroup": [0], "reduction": [1024], "lane_basis": [[64], [0]]}'
        """
        if isinstance(spec, Tuning):
            return spec
        return Tuning(**read(spec))

    def to_dict(self) -> dict[str, Any]:
        """The fields that are given, as lists and integers: what `parse` takes back."""
        return {f.name: listed(value) for f in fields(self) if (value := getattr(self, f.name)) is not None}

    def to_json(self) -> str:
        """`to_dict` as one line of JSON."""
        return json.dumps(self.to_dict())

    def to_attribute(self, spelling: str = "current") -> str:
        """The tuning as an MLIR attribute; `current` is what IREE 3.13 reads, `original` what older releases did.

        >>> print(Tuning(reduction=(512,), subgroup_size=64).to_attribute())
        #iree_codegen.compilation_info<lowering_config = #iree_gpu.lowering_config<{reduction = [512]}>, \
translation_info = #iree_codegen.translation_info<pipeline = #iree_gpu.pipeline<VectorDistribute> subgroup_size = 64, {}>>
        """
        check(spelling in SPELLINGS, f"spelling {spelling!r} is not known: use one of {', '.join(SPELLINGS)}", InputError)
        lanes, pipeline = SPELLINGS[spelling]
        given = self.to_dict()
        launch = "".join(f" {key} = {given.pop(key)}" for key in ("workgroup_size", "subgroup_size") if key in given)
        config = ", ".join(f"{lanes if key == 'lane_basis' else key} = {value}" for key, value in given.items())
        return (
            f"#iree_codegen.compilation_info<lowering_config = #iree_gpu.lowering_config<{{{config}}}>, "
            f"translation_info = #iree_codegen.translation_info<pipeline = {pipeline}{launch}, {{}}>>"
        )

    @property
    def reduction_tile(self) -> Tile:
        """The tile of the reduced loop, whichever name it was given by."""
        tile = self.reduction if self.partial_reduction is None else self.partial_reduction
        if tile is None:
            raise TuningError("partial_reduction is left out: resolve the tuning first, or give it")
        return tile

    def lanes(self, loop: int) -> int:
        """Lanes along a loop."""
        return _count("lane_basis", self.lane_basis, loop)

    def subgroups(self, loop: int) -> int:
        """Subgroups along a loop."""
        return _count("subgroup_basis", self.subgroup_basis, loop)

    def resolve(self, problem: Problem) -> Tuning:
        """The full form on the problem's canonical loops: every field but `reduction` filled, identity mappings, no dropped loops.

        Raises TuningError where the tuning contradicts itself or the problem. With nothing to reduce (K = 1, or an empty array)
        a tuning has no meaning, and comes back as it is.

        >>> from iree_reduce_plugin.problem import Problem
        >>> Tuning(workgroup=(0, 0), reduction=(0, 256), lane_basis=((4, 16), (0, 1))).resolve(Problem.of((4, 4096))).thread
        (1, 16)
        """
        if problem.columns == 1 or problem.is_empty:
            return self
        return _resolved(self, problem)

    def __str__(self) -> str:
        given = ", ".join(f"{key} {value}" for key, value in self.to_dict().items()) or "nothing given"
        lists = [
            self.workgroup,
            self.partial_reduction,
            self.reduction,
            self.thread,
            self.split_reduction,
            *(self.lane_basis or ()),
            *(self.subgroup_basis or ()),
        ]
        loops = max((len(entries) for entries in lists if entries is not None), default=1)
        try:
            full = complete(self, (None,) * loops)
        except TuningError:  # it depends on the rows, or it is wrong: `resolve` says so
            return f"{given}; the rest follows from the problem"
        known = {**self.to_dict(), **({"partial_reduction": full.to_dict()["partial_reduction"]} if self.reduction else {})}
        derived = ", ".join(f"{key} {value}" for key, value in full.to_dict().items() if known.get(key) != value)
        return f"{given}{'; derived: ' if derived else ''}{derived} ({product(full)})"


@functools.lru_cache(1024)  # a call that compiles nothing still asks, several times
def _resolved(tuning: Tuning, problem: Problem) -> Tuning:
    return complete(on_loops(tuning, problem), problem.loops)


def product(full: Tuning) -> str:
    """The tile of the reduced loop of a resolved tuning as the product that it is.

    >>> product(Tuning(partial_reduction=(512,), lane_basis=((16,), (0,)), subgroup_basis=((4,), (0,)), thread=(4,)))
    '512 = 2 steps x 4 subgroups x 16 lanes x 4 elements'
    """
    tile, loop = full.reduction_tile[-1], len(full.reduction_tile) - 1
    subgroups, lanes, elements = full.subgroups(loop), full.lanes(loop), (full.thread or (1,))[-1]
    steps = tile // (subgroups * lanes * elements)
    return f"{tile} = {f'{steps} steps x ' if steps > 1 else ''}{subgroups} subgroups x {lanes} lanes x {elements} elements"


def _count(name: str, basis: Basis | None, loop: int) -> int:
    if basis is None:
        raise TuningError(f"{name} is left out: resolve the tuning first, or give it")
    counts, mapping = basis
    return counts[mapping[loop]]


def _integer(name: str, value: object, least: int) -> int:
    if type(value) is int and least <= value <= _MAX:
        return value  # the usual case, without building messages that nobody reads
    check(
        isinstance(value, Integral) and not isinstance(value, bool),
        f"{name}: {show(value)} is a {type(value).__name__}, not an integer: write a whole number, e.g. 64",
    )
    number: int = int(value)  # type: ignore[call-overload]  # NumPy's integers become Python's
    remedy = f"give one of at least {least}" if number < least else f"the largest is {_MAX}"
    check(least <= number <= _MAX, f"{name}: entry {show(number)} is out of range: {remedy}")
    return number


def _integers(name: str, value: object, least: int) -> Tile | None:
    if value is None:
        return None
    check(isinstance(value, (list, tuple)), f"{name}: {show(value)} is a {type(value).__name__}, not a list: write e.g. [64, 1]")
    check(len(value) > 0, f"{name}: the list is empty: give one entry for each loop, or leave it out")  # type: ignore[arg-type]
    return tuple(_integer(name, v, least) for v in value)  # type: ignore[attr-defined]


def _basis(name: str, value: object) -> Basis | None:
    if value is None:
        return None
    check(
        isinstance(value, (list, tuple)) and len(value) == 2 and all(isinstance(v, (list, tuple)) for v in value),
        f"{name}: {show(value)} is not a basis: write [[counts], [mapping]], e.g. [[4, 16], [0, 1]]",
    )
    counts = _integers(name, value[0], 1) or ()  # type: ignore[index]
    mapping = _integers(f"{name} mapping", value[1], 0) or ()  # type: ignore[index]
    check(
        len(counts) == len(mapping),
        f"{name} {show(value)}: {len(counts)} counts but {len(mapping)} mapping entries: give one of each for every loop",
    )
    for i, index in enumerate(mapping):
        check(
            index < len(counts),
            f"{name} mapping {show(mapping)}: index {index} is out of range: the last of {len(counts)} counts is {len(counts) - 1}",
        )
        once = f"give each of 0 to {len(counts) - 1} once"
        check(index not in mapping[:i], f"{name} mapping {show(mapping)}: index {index} is doubled: {once}")
    return counts, mapping
