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
from iree_reduce_plugin.ops import OPS
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
# What `dtype=` is where a cell has one; of ops whose result is a float, f32.
OUT_DTYPE = {
    **dict.fromkeys(("f64", "f16", "bf16", "f8E4M3FN", "f8E4M3FNUZ", "f8E5M2"), "f32"),
    **dict.fromkeys(("i8", "i16", "i32", "i64", "bool"), "i32"),
    **dict.fromkeys(("ui8", "ui16", "ui32", "ui64"), "ui32"),
    "f32": "f64",
}
# Those that are much alike take turns in one place of a factor, so that the cover stays small.
TYPES = {
    "f32": ("f32",),
    "f64": ("f64",),
    "16-bit float": ("f16", "bf16"),
    "8-bit float": ("f8E4M3FN", "f8E4M3FNUZ", "f8E5M2"),
    "i32": ("i32", "ui32"),
    "i64": ("i64", "ui64"),
    "short integer": ("i8", "ui8", "i16", "ui16", "bool"),
}
KINDS = {
    "sum": ("sum",),
    "prod": ("prod",),
    "max": ("max", "min"),
    "fmax": ("fmax", "fmin"),
    "any": ("any", "all", "count_nonzero"),
    "bitwise": ("bitwise_and", "bitwise_or", "bitwise_xor"),
    "squares": ("sum_of_squares", "l2"),
    "magnitudes": ("l1", "mean", "log_sum"),
    "several": ("argmax", "var", "ptp", "logsumexp", "argmin", "std", "argmax_last", "argmin_last"),
}
MAX_BYTES = 64 << 20
MAX_STEPS = 40_000  # of the reference, a loop in Python

Choice = Mapping[str, Any]

FACTORS: dict[str, Sequence[Any]] = {
    "columns": COLUMNS,
    "rows": (ONE, *MANY_ROWS),
    "op": tuple(KINDS),
    "dtype": tuple(TYPES),
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
        return Problem.of(self.shape, ElementType(self.dtype), self.op, self.axis, False, _named(self.out_dtype), self.initial)

    def __str__(self) -> str:
        shape = "x".join(map(str, self.shape))
        given = (("initial", self.initial), ("dtype", self.out_dtype), ("axis", None if self.axis == -1 else self.axis))
        joined = [f"{name}={value}" for name, value in given if value is not None]
        lists = "default" if self.tuning is None else "-".join(f"{key[0]}{_flat(value)}" for key, value in self.tuning.items())
        return "-".join([self.op, f"{shape}x{self.dtype}", *joined, lists, self.data.replace(" ", "_")])


def _named(dtype: str | None) -> ElementType | None:
    """By MLIR's name: NumPy's `i8` is another type."""
    return None if dtype is None else ElementType(dtype)


def _flat(value: Any) -> str:
    counts = value[0] if isinstance(value[0], list) else value
    turned = "r" if isinstance(value[0], list) and value[1] != sorted(value[1]) else ""
    return "x".join(map(str, counts)) + turned


def fits(chosen: Choice, subgroup_size: int, max_subgroups: int | None) -> bool:
    """Whether a choice of some of the factors can be part of a cell. max_subgroups: of a workgroup on a GPU; None on the CPU."""
    get = chosen.get
    rows, columns, lanes, subgroups, basis = get("rows"), get("columns"), get("lanes"), get("subgroups"), get("row_basis")
    extents = 1 if rows in (None, ONE) else rows, columns or 0, 2 if get("memory") == "middle" else 1
    if "dtype" in chosen:
        element = ElementType(TYPES[chosen["dtype"]][0])
        if math.prod(extents) * element.bytes > MAX_BYTES:
            return False
        if not element.is_float and get("data") in FLOAT_DATA:
            return False
        if element.is_float and get("op") == "bitwise":
            return False
    if get("op") == "bitwise" and get("data") in FLOAT_DATA:
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
    join, turn = chosen["join"], COLUMNS.index(columns) + FACTORS["rows"].index(rows)
    types, kinds = TYPES[chosen["dtype"]], KINDS[chosen["op"]]
    dtype, op = types[turn % len(types)], kinds[(turn // len(types)) % len(kinds)]
    return Cell(
        shape,
        dtype,
        op,
        None if chosen["subgroups"] is None else _tuning(chosen, rows == ONE, subgroup_size),
        chosen["data"],
        *joins(op, dtype, "initial" in join, "dtype" in join),
        axis,
    )


def joins(op: str, dtype: str, initial: bool, out_dtype: bool) -> tuple[int | None, str | None]:
    """`initial` and `dtype=` of a cell, where the op takes them."""
    takes, out = OPS[op], OUT_DTYPE[dtype]
    if not takes.takes_integers and not ElementType(out).is_float:
        out = "f32"
    return (1 if dtype == "bool" else 3) if initial and takes.takes_initial else None, out if out_dtype and takes.takes_dtype else None


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
    x = _random(problem, rng)
    low = float(ml_dtypes.finfo(dtype).min) if problem.input.is_float else problem.input.limits[0]
    if kind == "ones":
        x = np.ones(n, dtype)
    elif kind == "whole":
        x = rng.integers(max(low, -8), 9, n).astype(dtype)
    elif kind == "negative":
        x = np.maximum(-1e6 * (1 + rng.random(n)), low).astype(dtype)
    elif kind == "lowest":
        x[:, ::3] = low
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
        x = np.full(n, -np.inf).astype(dtype)
    elif kind == "zeros":
        x = np.where(rng.random(n) < 0.5, 0.0, -0.0).astype(dtype)
    kept = [n for a, n in enumerate(problem.shape) if a not in problem.axes]
    reduced = [problem.shape[a] for a in problem.axes]
    return np.ascontiguousarray(np.moveaxis(x.reshape(kept + reduced), range(-len(reduced), 0), problem.axes))


def _random(problem: Problem, rng: np.random.Generator) -> Any:
    """For products near 1, so that they neither overflow nor vanish; for logarithms positive; integers from the whole range."""
    n, element = (problem.rows, problem.columns), problem.input
    if element.is_bool:
        return rng.random(n) < 0.5
    if not element.is_float:
        return rng.integers(*element.limits, n, element.numpy, endpoint=True)
    values = rng.standard_normal(n, np.float64 if element.bits == 64 else np.float32)
    name = problem.op.name
    chosen = 1 + values / math.sqrt(problem.columns) if name == "prod" else np.abs(values) if name == "log_sum" else values
    if name == "prod" and element.bits < 32 and problem.columns > 4096:  # rounded, so many would drift: most are 1
        chosen = np.where(rng.random(n) < 64 / problem.columns, 1 + values / 8, 1)
    if name in ("fmax", "fmin"):
        chosen[rng.random(n) < 0.2] = np.nan
        chosen[:1] = np.nan
    return chosen.astype(element.numpy)


# NumPy's own, for those that round nothing; what is added up, for those that do; and what becomes of the sum, with its error's bound.
EXACT = {
    "max": np.maximum.reduce,
    "min": np.minimum.reduce,
    "fmax": np.fmax.reduce,
    "fmin": np.fmin.reduce,
    "any": np.any,
    "all": np.all,
    "bitwise_and": np.bitwise_and.reduce,
    "bitwise_or": np.bitwise_or.reduce,
    "bitwise_xor": np.bitwise_xor.reduce,
    "count_nonzero": np.count_nonzero,
}
ADDED = {"sum_of_squares": np.square, "l2": np.square, "l1": np.abs}


def _finished(problem: Problem, total: Any, bound: Any) -> tuple[Any, Any]:
    """The result and its bound: of a mean by division, of a root and a logarithm by how steep they are (and 4 units of the function)."""
    name = problem.op.name
    unit = float(np.finfo(problem.accumulator.numpy).eps)
    if name == "mean":
        return total / problem.columns, bound / problem.columns + 4 * unit * np.abs(total / problem.columns)
    if name == "l2":
        root = np.sqrt(total)
        return root, np.where(bound < total, bound / root, np.sqrt(bound + total)) + 4 * unit * root
    if name == "log_sum":
        share = bound / np.abs(total)
        return np.log(total), np.where(share < 0.5, 2 * share, np.inf) + 4 * unit * np.abs(np.log(total)) + unit
    return total, bound


def near_numpy(result: Any, x: Any, problem: Problem, layout: Layout | None) -> bool:
    """Whether the result is NumPy's, within what rounding allows.

    Integers wrap in any order, and max and min round nothing: equal, zeros of either sign being equal, as NaN and NaN.
    A float sum: an element passes through at most h = steps + E + log2 L + S + 1 additions, each of which changes it by a factor
    within 1 +- u (u: half the distance from 1 to the next value), so the error is at most h u sum|x|, to first order; then one
    rounding to the result's type, and what NumPy's own sum, in a wider type and pairwise, may be off. A float product: K factors
    within 1 +- u, the same way. Rows whose partial results can overflow or vanish are left to the comparison with the reference.
    """
    name = problem.op.name
    with np.errstate(all="ignore"):
        elements = as_matrix(x, problem).astype(problem.loop_type.numpy).astype(problem.computed.numpy)
        result = np.asarray(result).reshape(problem.rows)
        if name in EXACT or not problem.accumulator.is_float:
            if name in EXACT:
                expected = EXACT[name](elements, axis=1)
            else:
                ufunc = np.multiply if name == "prod" else np.add
                expected = ufunc.reduce(ADDED.get(name, np.asarray)(elements), axis=1, dtype=elements.dtype)
            if problem.initial is not None:
                joining = {"prod": np.multiply, "sum": np.add}.get(name) or getattr(EXACT.get(name), "__self__", np.add)
                expected = joining(expected, elements.dtype.type(problem.initial))
            expected = expected.astype(problem.result.numpy)
            return bool(((result == expected) | ((result != result) & (expected != expected))).all())
        wide = elements.astype(np.float64 if elements.dtype.itemsize < 8 else np.longdouble)
        wide = ADDED.get(name, np.asarray)(wide)
        if problem.initial is not None:
            wide = np.concatenate([np.full((len(wide), 1), problem.initial, wide.dtype), wide], axis=1)
        limits, rounded = np.finfo(elements.dtype), ml_dtypes.finfo(problem.result.numpy)
        unit = float(limits.eps) / 2
        if name == "prod":
            expected = np.multiply.reduce(wide, axis=1)
            size = np.abs(np.log2(np.abs(np.where(wide == 0, 1, wide)))).sum(axis=1)
            safe, bound = size < -math.log2(float(limits.smallest_normal)) / 2, (problem.columns + 1) * unit * np.abs(expected)
        else:
            magnitude = np.abs(wide).sum(axis=1)
            height = (
                layout.steps + layout.columns.elements + math.log2(layout.columns.lanes) + layout.columns.subgroups + 1 if layout else 1
            )
            safe, bound = magnitude < float(limits.max) / 2, (height + 2) * unit * magnitude
            expected, bound = _finished(problem, np.add.reduce(wide, axis=1), bound)
        bound = 1.01 * bound + float(rounded.eps) / 2 * np.abs(expected) + float(rounded.smallest_subnormal)
        found = result.astype(wide.dtype)
        close = np.abs(found - expected) <= bound
        large = np.abs(expected) + bound >= float(rounded.max)
        overflowed = large & (np.isinf(found) & (np.sign(found) == np.sign(expected)))
        overflowed |= large & np.isnan(found) & (problem.result.name in ("f8E4M3FN", "f8E4M3FNUZ"))  # they have no infinity
        unsafe = np.isfinite(wide).all(axis=1) & ~safe
        same = (found == expected) | (np.isnan(found) & np.isnan(expected))
        mixed = ~np.isfinite(wide).all(axis=1) & (name == "prod")  # inf times a partial product that has vanished is NaN
        return bool((close | overflowed | unsafe | same | mixed).all())


def unsigned_zeros(x):
    """`x` with +0 in the place of -0."""
    return np.where(x == 0, np.zeros_like(x), x)
