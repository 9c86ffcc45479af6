"""The cells of the end-to-end matrix: what is reduced, how, on which data; and how a result is judged.

A cell is one choice of every factor in `FACTORS`. `pairwise` covers every pair of choices, `sampled` takes cells at random.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from iree_reduce_plugin.element_types import ElementType
from iree_reduce_plugin.layout import Layout
from iree_reduce_plugin.problem import Problem
from iree_reduce_plugin.reference import as_matrix

COLUMNS = (
    2,
    3,
    7,
    31,
    32,
    33,
    63,
    64,
    65,
    255,
    256,
    257,
    1000,
    1023,
    1024,
    1025,
    4093,
    4096,
    4097,
    33024,
    65536,
    128256,
    1 << 20,
    (1 << 24) + 4,
)
MANY_ROWS = (2, 3, 4, 5, 7, 16, 17, 1025)
ONE = "one"  # row: an array of one dimension and one of a single row, which are the same loops, take turns
FILL = "fill"  # the lanes of a subgroup that are not along K lie along the rows
FLOAT_DATA = ("nan first", "nan last", "nan in the tail", "infinities", "minus infinity", "zeros")
DATA = ("random", "ones", "whole", "negative", "lowest", *FLOAT_DATA)
OUT_DTYPE = {"f32": "f64", "f64": "f32", "f16": "f32", "bf16": "f32", "i32": "i32", "i64": "i32"}
MAX_BYTES = 64 << 20
MAX_STEPS = 40_000  # of the reference, a loop in Python

Choice = Mapping[str, Any]

FACTORS: dict[str, Sequence[Any]] = {
    "columns": COLUMNS,
    "rows": (ONE, *MANY_ROWS),
    "op": ("sum", "prod", "max", "min"),
    "dtype": ("f32", "f64", "f16", "bf16", "i32", "i64"),
    "subgroups": (None, 1, 2, 3, 4, 5, 8),  # None: the default tuning
    "lanes": (1, 4, 16, 32, 64),
    "elements": (1, 2, 3, 4, 8),
    "unroll": (1, 2, 3),
    "memory": ("last", "first", "middle"),  # where K lies; in the middle, there are two rows outside it
    "mapping": ("straight", "reversed"),
    "row_basis": ((1, 1, 1), (1, FILL, 1), (2, FILL, 1), (1, 1, 3), (2, FILL, 2)),  # subgroups, lanes, thread rows
    "data": DATA,
    "join": ((), ("initial",), ("dtype",), ("initial", "dtype")),
}
TUNING_FACTORS = ("lanes", "elements", "unroll", "mapping", "row_basis")


@dataclass(frozen=True)
class Cell:
    """tuning: its fields, or None for the default. data: one of DATA."""

    shape: tuple[int, ...]
    dtype: str
    op: str
    tuning: dict[str, Any] | None
    data: str = "random"
    initial: int | None = None
    out_dtype: str | None = None
    axis: int = -1

    @property
    def problem(self) -> Problem:
        return Problem.of(self.shape, self.dtype, self.op, self.axis, False, self.out_dtype, self.initial)

    def __str__(self) -> str:
        shape = "x".join(map(str, self.shape))
        given = (("initial", self.initial), ("dtype", self.out_dtype), ("axis", None if self.axis == -1 else self.axis))
        joined = [f"{name}={value}" for name, value in given if value is not None]
        lists = "default" if self.tuning is None else "-".join(f"{key[0]}{_flat(value)}" for key, value in self.tuning.items())
        return "-".join([self.op, f"{shape}x{self.dtype}", *joined, lists, self.data.replace(" ", "_")])


def _flat(value: Any) -> str:
    counts = value[0] if isinstance(value[0], list) else value
    turned = "r" if isinstance(value[0], list) and value[1] != sorted(value[1]) else ""
    return "x".join(map(str, counts)) + turned


def fits(chosen: Choice, subgroup_size: int, max_subgroups: int | None) -> bool:
    """Whether a choice of some of the factors can be part of a cell. max_subgroups: of a workgroup on a GPU; None on the CPU."""
    get = chosen.get
    rows, columns, lanes, subgroups, basis = get("rows"), get("columns"), get("lanes"), get("subgroups"), get("row_basis")
    extents = 1 if rows in (None, ONE) else rows, columns or 0, 2 if get("memory") == "middle" else 1
    if "dtype" in chosen and math.prod(extents) * ElementType(chosen["dtype"]).bytes > MAX_BYTES:
        return False
    if "dtype" in chosen and "data" in chosen and chosen["dtype"].startswith("i") and chosen["data"] in FLOAT_DATA:
        return False
    if "subgroups" in chosen and subgroups is None:
        return all(get(name) in (None, FACTORS[name][0]) for name in TUNING_FACTORS)
    if rows == ONE and (basis not in (None, (1, 1, 1)) or get("memory") not in (None, "last") or get("mapping") not in (None, "straight")):
        return False
    if columns and subgroups and lanes and "elements" in chosen and columns > MAX_STEPS * subgroups * lanes * chosen["elements"]:
        return False
    if max_subgroups is not None and subgroups and basis and lanes:
        filled = lanes == subgroup_size or basis[1] == FILL
        return filled and lanes <= subgroup_size and subgroups * basis[0] <= max_subgroups
    return True


def cell(chosen: Choice, subgroup_size: int) -> Cell:
    """The cell of a full choice."""
    rows, columns = chosen["rows"], chosen["columns"]
    one = (columns,) if COLUMNS.index(columns) % 2 else (1, columns)
    shapes = {"last": ((rows, columns), -1), "first": ((columns, rows), 0), "middle": ((2, columns, rows), 1)}
    shape, axis = (one, -1) if rows == ONE else shapes[chosen["memory"]]
    join = chosen["join"]
    return Cell(
        shape,
        chosen["dtype"],
        chosen["op"],
        None if chosen["subgroups"] is None else _tuning(chosen, rows == ONE, subgroup_size),
        chosen["data"],
        3 if "initial" in join else None,
        OUT_DTYPE[chosen["dtype"]] if "dtype" in join else None,
        axis,
    )


def _tuning(chosen: Choice, one: bool, subgroup_size: int) -> dict[str, Any]:
    lanes, sizes = chosen["lanes"], (chosen["subgroups"], chosen["elements"])
    if one:
        return spelled(lanes, *sizes, unroll=chosen["unroll"])
    row_subgroups, row_lanes, thread_rows = chosen["row_basis"]
    row_lanes = max(1, subgroup_size // lanes) if row_lanes == FILL else 1
    tuning = spelled(lanes, *sizes, row_lanes, row_subgroups, thread_rows, chosen["unroll"])
    if chosen["memory"] == "middle":  # one row of the outer ones a workgroup, the rest as for two loops
        tuning = {
            key: [[1, *value[0]], [0, 1, 2]] if key.endswith("basis") else [int(key in ("workgroup", "thread")), *value]
            for key, value in tuning.items()
        }
    if chosen["mapping"] == "reversed":
        tuning |= {key: [value[0][::-1], value[1][::-1]] for key, value in tuning.items() if key.endswith("basis")}
    return tuning


def spelled(
    lanes: int, subgroups: int, elements: int, row_lanes: int | None = None, row_subgroups: int = 1, thread_rows: int = 1, unroll: int = 1
) -> dict[str, Any]:
    """A tuning of these factors. row_lanes: None for an array of one dimension."""
    tile = subgroups * lanes * elements * unroll
    if row_lanes is None:
        return {"partial_reduction": [tile], "thread": [elements], "lane_basis": [[lanes], [0]], "subgroup_basis": [[subgroups], [0]]}
    return {
        "workgroup": [row_subgroups * row_lanes * thread_rows, 0],
        "partial_reduction": [0, tile],
        "thread": [thread_rows, elements],
        "lane_basis": [[row_lanes, lanes], [0, 1]],
        "subgroup_basis": [[row_subgroups, subgroups], [0, 1]],
    }


def pairwise(factors: Mapping[str, Sequence[Any]], possible: Callable[[Choice], bool], seed: int = 0) -> list[dict[str, Any]]:
    """Choices that have every possible pair of values together at least once, greedily few. The same for the same arguments."""
    rng, names = random.Random(seed), list(factors)
    every = [
        ((a, x), (b, y)) for a, b in itertools.combinations(names, 2) for x in factors[a] for y in factors[b] if possible({a: x, b: y})
    ]
    missing, chosen = set(every), []

    def gain(choice: Choice, name: str, value: Any) -> int:
        at = names.index(name)
        pairs = (((o, v), (name, value)) if names.index(o) < at else ((name, value), (o, v)) for o, v in choice.items())
        return sum(pair in missing for pair in pairs)

    def completed(start: Choice) -> dict[str, Any] | None:
        choice = dict(start)
        for name in rng.sample([n for n in names if n not in start], len(names) - len(start)):
            options = [value for value in factors[name] if possible({**choice, name: value})]
            if not options:
                return None
            choice[name] = max(options, key=lambda value: (gain(choice, name, value), rng.random()))
        return choice

    def pairs_of(choice: Choice) -> set[Any]:
        return set(itertools.combinations(((name, choice[name]) for name in names), 2))

    for start in every:
        if start not in missing:
            continue
        tries = [choice for _ in range(4) if (choice := completed(dict(start)))]
        if tries:
            chosen.append(max(tries, key=lambda choice: len(pairs_of(choice) & missing)))
            missing -= pairs_of(chosen[-1])
    return chosen


def sampled(count: int, possible: Callable[[Choice], bool], seed: int) -> Iterator[dict[str, Any]]:
    """Cells of the full product, at random."""
    rng = random.Random(seed)
    while count:
        choice = {name: rng.choice(values) for name, values in FACTORS.items()}
        if possible(choice):
            count -= 1
            yield choice


def make_data(problem: Problem, kind: str, layout: Layout | None, seed: int = 0) -> Any:
    """An array of the problem's shape; the kinds are those of DATA."""
    rng, dtype, n = np.random.default_rng(seed), problem.input.numpy, (problem.rows, problem.columns)
    info = ml_dtypes.finfo(dtype) if problem.input.is_float else np.iinfo(dtype)
    x = _random(problem, rng, info)
    if kind == "ones":
        x = np.ones(n, dtype)
    elif kind == "whole":
        x = rng.integers(-8, 9, n).astype(dtype)
    elif kind == "negative":
        x = np.maximum(-1e6 * (1 + rng.random(n)), float(info.min)).astype(dtype)
    elif kind == "lowest":
        x[:, ::3] = info.min
    elif kind == "nan first":
        x[0, 0] = np.nan
    elif kind == "nan last":
        x[-1, -1] = np.nan
    elif kind == "nan in the tail":
        tail = layout.columns.remainder if layout else 0
        x[-1, -max(1, tail)] = np.nan
    elif kind == "infinities":
        x[0, -1], x[-1, 0], x[-1, -1] = np.inf, np.inf, -np.inf
    elif kind == "minus infinity":
        x = np.full(n, -np.inf, dtype)
    elif kind == "zeros":
        x = np.where(rng.random(n) < 0.5, 0.0, -0.0).astype(dtype)
    kept = [n for a, n in enumerate(problem.shape) if a not in problem.axes]
    reduced = [problem.shape[a] for a in problem.axes]
    return np.ascontiguousarray(np.moveaxis(x.reshape(kept + reduced), range(-len(reduced), 0), problem.axes))


def _random(problem: Problem, rng: np.random.Generator, info: Any) -> Any:
    """For products near 1, so that they neither overflow nor vanish; integers from the whole range."""
    n, dtype = (problem.rows, problem.columns), problem.input.numpy
    if not problem.input.is_float:
        return rng.integers(info.min, info.max, n, dtype, endpoint=True)
    values = rng.standard_normal(n, np.float64 if problem.input.bits == 64 else np.float32)
    return (1 + values / math.sqrt(problem.columns) if problem.op.name == "prod" else values).astype(dtype)


def near_numpy(result: Any, x: Any, problem: Problem, layout: Layout | None) -> bool:
    """Whether the result is NumPy's, within what rounding allows.

    Integers wrap in any order, and max and min round nothing: equal, zeros of either sign being equal, as NaN and NaN.
    A float sum: an element passes through at most h = steps + E + log2 L + S + 1 additions, each of which changes it by a factor
    within 1 +- u (u: half the distance from 1 to the next value), so the error is at most h u sum|x|, to first order; then one
    rounding to the result's type, and what NumPy's own sum, in a wider type and pairwise, may be off. A float product: K factors
    within 1 +- u, the same way. Rows whose partial results can overflow or vanish are left to the comparison with the reference.
    """
    with np.errstate(all="ignore"):
        elements = as_matrix(x, problem).astype(problem.loop_type.numpy).astype(problem.accumulator.numpy)
        result, ufunc = np.asarray(result).reshape(problem.rows), problem.op.ufunc
        if not problem.accumulator.is_float or not problem.op.widens:
            expected = ufunc.reduce(elements, axis=1, dtype=elements.dtype)
            if problem.initial is not None:
                expected = ufunc(expected, elements.dtype.type(problem.initial))
            return bool(((result == expected) | ((result != result) & (expected != expected))).all())
        wide = elements.astype(np.float64 if elements.dtype.itemsize < 8 else np.longdouble)
        if problem.initial is not None:
            wide = np.concatenate([np.full((len(wide), 1), problem.initial, wide.dtype), wide], axis=1)
        expected = ufunc.reduce(wide, axis=1)
        limits, rounded = np.finfo(elements.dtype), ml_dtypes.finfo(problem.result.numpy)
        unit = float(limits.eps) / 2
        if problem.op.name == "sum":
            magnitude = np.abs(wide).sum(axis=1)
            height = (
                layout.steps + layout.columns.elements + math.log2(layout.columns.lanes) + layout.columns.subgroups + 1 if layout else 1
            )
            safe, bound = magnitude < float(limits.max) / 2, (height + 1) * unit * magnitude
        else:
            size = np.abs(np.log2(np.abs(np.where(wide == 0, 1, wide)))).sum(axis=1)
            safe, bound = size < -math.log2(float(limits.smallest_normal)) / 2, (problem.columns + 1) * unit * np.abs(expected)
        bound = 1.01 * bound + float(rounded.eps) / 2 * np.abs(expected) + float(rounded.smallest_subnormal)
        found = result.astype(wide.dtype)
        close = np.abs(found - expected) <= bound
        overflowed = np.isinf(found) & (np.sign(found) == np.sign(expected)) & (np.abs(expected) + bound >= float(rounded.max))
        unsafe = np.isfinite(wide).all(axis=1) & ~safe
        same = (found == expected) | (np.isnan(found) & np.isnan(expected))
        mixed = ~np.isfinite(wide).all(axis=1) & (problem.op.name == "prod")  # inf times a partial product that has vanished is NaN
        return bool((close | overflowed | unsafe | same | mixed).all())


def unsigned_zeros(x):
    """`x` with +0 in the place of -0."""
    return np.where(x == 0, np.zeros_like(x), x)
