"""What `test_property.py` draws: a call of `reduce` as plain data, and the array it is about. What shrinks, shrinks to a plain sum."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import strategies as st

from iree_reduce_plugin.element_types import NAMES, ElementType
from iree_reduce_plugin.errors import ReduceError
from iree_reduce_plugin.layout import Layout
from iree_reduce_plugin.ops import OPS
from iree_reduce_plugin.plan import make_job
from iree_reduce_plugin.problem import Problem
from iree_reduce_plugin.targets import Target, find_target

MOST_ELEMENTS = 200_000
MOST_STEPS = 4000  # of the reference, a loop in Python
MOST_UNROLLED = {"cpu": 512, "vulkan": 48}  # elements x rows x steps that a thread spells out: compile time goes with them
EXTENTS = (2, 3, 1, 4, 5, 7, 8, 13, 16, 17, 31, 32, 33, 64, 65, 100, 127, 129, 255, 257, 1000, 1025, 4097, 33024, 65537)
INITIALS = (
    0,
    1,
    3,
    -0.0,
    -2,
    7,
    0.5,
    300,
    -1e7,
    1e30,
    2**40,
    float("inf"),
    float("-inf"),
    float("nan"),
    True,
    -128,
    127,
    255,
    -(2**31),
    2**63 - 1,
)
MEMORIES = ("C", "Fortran", "transposed", "strided", "negative", "read-only", "big-endian", "misaligned")
ANY_DATA = ("random", "whole", "ones", "extremes", "below", "many", "last", "one-hot")
MASKS = ("half", "one row", "few", "nothing")
FLOAT_DATA = ("nan", "infinities", "zeros", "subnormal")
BUILTIN = [name for name in NAMES if not name.startswith(("bf", "f8"))]  # whose arrays can be big-endian


@dataclass(frozen=True)
class Case:
    """options: the keywords of `reduce` besides op, axis and device. tuning: as a dict, or None for the default."""

    shape: tuple[int, ...]
    dtype: str
    op: str
    axis: Any
    options: dict[str, Any]
    tuning: dict[str, Any] | None
    memory: str = "C"
    data: str = "random"
    seed: int = 0
    mask: str = ""

    def problem(self) -> Problem:
        """Raises what `reduce` would."""
        options = dict(self.options)
        return Problem.of(
            self.shape, ElementType(self.dtype), self.op, self.axis, out_dtype=options.pop("dtype", None), masked=bool(self.mask), **options
        )


@st.composite
def cases(draw: st.DrawFn, target_name: str) -> Case:
    target = find_target(target_name)
    shape = draw(_shapes())
    dtype, op = draw(st.sampled_from(list(NAMES))), draw(st.sampled_from(list(OPS)))
    if op.startswith("bitwise") and ElementType(dtype).is_float and not _rarely(draw):
        dtype = "i32"  # NumPy has none of floats: a few of them will do
    if _rarely(draw):  # one mistake at a time: which of two is told first is nobody's rule
        axis, options = draw(st.sampled_from((len(shape), -len(shape) - 1, (0, 0), (0, -len(shape))))), {}
    else:
        axis, options = draw(_axes(len(shape))), _options(draw, op, dtype)
    data = draw(st.sampled_from(ANY_DATA + (FLOAT_DATA if ElementType(dtype).is_float else ())))
    case = Case(shape, dtype, op, axis, options, None, draw(st.sampled_from(MEMORIES)), data, draw(st.integers(0, 999)))
    if OPS[op].takes_where and draw(st.integers(0, 3)) == 3:
        case = dataclasses.replace(case, mask=draw(st.sampled_from(MASKS)))
    try:
        problem = case.problem()
        make_job(problem, None, target)
    except (ReduceError, ValueError, TypeError):
        return case  # refused, whatever the tuning
    given = problem.columns > 1 and not problem.is_empty and draw(st.integers(0, 3)) > 0
    tuning = draw(_tunings(problem, target)) if given else None
    return dataclasses.replace(case, tuning=tuning)


def _rarely(draw: st.DrawFn) -> bool:
    return draw(st.integers(0, 15)) == 15


@st.composite
def _shapes(draw: st.DrawFn) -> tuple[int, ...]:
    rank = draw(st.sampled_from((2, 1, 3, 1, 2, 3, 4, 5, 6, 7, 8)))
    shape: list[int] = []
    for _ in range(rank):
        room = MOST_ELEMENTS // math.prod(shape)
        shape.append(draw(st.sampled_from([n for n in EXTENTS if n <= min(room, MOST_ELEMENTS if rank <= 3 else 20)])))
    turn = draw(st.integers(0, rank - 1))
    shape = shape[turn:] + shape[:turn]  # the long extents come first otherwise
    if _rarely(draw):
        shape[draw(st.integers(0, rank - 1))] = 0
    return tuple(shape)


@st.composite
def _axes(draw: st.DrawFn, rank: int) -> Any:
    """Of no axis, of all, of one, of some that need not be neighbours."""
    kind = draw(st.sampled_from(("last", "one", "one", "some", "some", "some", "all", "none")))
    if kind in ("last", "all", "none"):
        return {"last": -1, "all": None, "none": ()}[kind]
    if kind == "one":
        return draw(st.integers(-rank, rank - 1))
    chosen = draw(st.lists(st.integers(0, rank - 1), min_size=1, max_size=rank, unique=True))
    return tuple(a - rank if negative else a for a in chosen for negative in [draw(st.booleans())])


def _options(draw: st.DrawFn, op: str, dtype: str) -> dict[str, Any]:
    """Mostly those that the op has."""
    options: dict[str, Any] = {}
    if draw(st.booleans()):
        options["keepdims"] = True
    takes = OPS[op]
    if (takes.takes_initial or _rarely(draw)) and draw(st.integers(0, 2)) == 2:
        options["initial"] = draw(st.sampled_from(INITIALS))
    if (takes.takes_dtype or _rarely(draw)) and draw(st.integers(0, 3)) == 3:
        named = draw(st.sampled_from(list(NAMES)))
        options["dtype"] = ElementType(named).numpy
    if (takes.takes_ddof or _rarely(draw)) and draw(st.booleans()):
        options["ddof"] = draw(st.sampled_from((1, 0, 2, 3, 40)))
    return options


@st.composite
def _tunings(draw: st.DrawFn, problem: Problem, target: Target) -> dict[str, Any] | None:
    """One that fits the target, or None, if a few tries find none."""
    for _ in range(4):
        tuning = draw(_any_tuning(problem, target))
        try:
            job, _ = make_job(problem, tuning, target)
        except ReduceError:
            continue
        layout = Layout.of(problem, job.tuning)
        unrolled = layout.rows.held * layout.inner.held * layout.columns.elements * layout.unroll
        most = MOST_UNROLLED["vulkan" if target.is_gpu else "cpu"]
        if layout.steps <= MOST_STEPS and unrolled <= most and layout.columns.size <= 4096:
            return tuning
    return None


@st.composite
def _any_tuning(draw: st.DrawFn, problem: Problem, target: Target) -> dict[str, Any]:
    loops = len(problem.loops)
    lanes = _gpu_lanes(draw, loops, (target.subgroup_sizes or (1,))[0]) if target.is_gpu else _cpu_lanes(draw, loops)
    subgroups = [draw(st.sampled_from((1, 2, 3, 1, 4, 5, 7) if i == loops - 1 else (1, 1, 2, 3))) for i in range(loops)]
    thread = [draw(st.sampled_from((1, 2, 3, 4, 8, 5, 16) if i == loops - 1 else (1, 1, 2, 3, 5, 8))) for i in range(loops)]
    unroll = draw(st.sampled_from((1, 1, 2, 3, 4)))
    tuning = {
        "lane_basis": _basis(lanes, draw(st.permutations(range(loops)))),
        "subgroup_basis": _basis(subgroups, draw(st.permutations(range(loops)))),
        draw(st.sampled_from(("partial_reduction", "reduction"))): [0] * (loops - 1) + [unroll * subgroups[-1] * lanes[-1] * thread[-1]],
        "thread": thread,
    }
    if draw(st.booleans()):
        tuning["workgroup"] = [*(s * n * e for s, n, e in zip(subgroups[:-1], lanes, thread, strict=False)), 0]
    if draw(st.booleans()):
        tile = unroll * subgroups[-1] * lanes[-1] * thread[-1]
        tuning["split_reduction"] = [0] * (loops - 1) + [draw(st.sampled_from((1, 2, 3, 8))) * tile]
    if draw(st.booleans()):
        tuning |= {"workgroup_size": [math.prod(subgroups) * math.prod(lanes)], "subgroup_size": math.prod(lanes)}
    return tuning


def _basis(counts: list[int], mapping: list[int]) -> list[list[int]]:
    """Loop i has counts[i]: they stand at the places that the mapping says."""
    placed = [0] * len(counts)
    for count, digit in zip(counts, mapping, strict=True):
        placed[digit] = count
    return [placed, list(mapping)]


def _cpu_lanes(draw: st.DrawFn, loops: int) -> list[int]:
    """Any number along a kept loop; a power of two along the reduced one."""
    return [*(draw(st.sampled_from((1, 1, 2, 3, 4, 5))) for _ in range(loops - 1)), draw(st.sampled_from((1, 2, 4, 8, 16, 64)))]


def _gpu_lanes(draw: st.DrawFn, loops: int, size: int) -> list[int]:
    """A subgroup's lanes, shared out among the loops."""
    lanes = [1] * (loops - 1) + [size]
    for i in range(loops - 1):
        lanes[i] = draw(st.sampled_from([1 << b for b in range(lanes[-1].bit_length())]))
        lanes[-1] //= lanes[i]
    return lanes


def array(case: Case) -> Any:
    """The case's array, in its memory layout."""
    return laid_out(_values(case), case)


def mask(case: Case) -> Any:
    """The case's `where`; None where it has none."""
    rng = np.random.default_rng(case.seed + 2)
    if case.mask == "one row":
        return rng.random(case.shape[-1:]) < 0.7
    share = {"half": 0.5, "few": 0.02, "nothing": 0.0}.get(case.mask)
    return None if share is None else rng.random(case.shape) < share


def _values(case: Case) -> Any:
    rank = len(case.shape)
    axes = case.axis if isinstance(case.axis, tuple) else tuple(range(rank)) if case.axis is None else (case.axis,)
    axes = tuple(sorted({a % rank for a in axes}))
    kept, reduced = [n for a, n in enumerate(case.shape) if a not in axes], [case.shape[a] for a in axes]
    matrix = _matrix(case, (math.prod(kept), math.prod(reduced)))
    return np.ascontiguousarray(np.moveaxis(matrix.reshape(kept + reduced), range(len(kept), rank), axes))


def _matrix(case: Case, n: tuple[int, int]) -> Any:
    """As [rows, K], so that the places of single values are those that a reduction finds first, last, and in its tail."""
    rng, element = np.random.default_rng(case.seed), ElementType(case.dtype)
    dtype = element.numpy
    low, high = (float(limit) for limit in (ml_dtypes.finfo(dtype).min, ml_dtypes.finfo(dtype).max)) if element.is_float else element.limits
    x = _random(case, element, rng, n)
    if math.prod(n) == 0:
        return x
    kind = case.data
    if kind == "whole":
        x = rng.integers(max(low, -4), min(high, 4), n, endpoint=True).astype(dtype)
    elif kind == "ones":
        x = np.ones(n, dtype)
    elif kind == "extremes":
        where = rng.random(n)
        x[where < 0.2], x[where > 0.9] = low, high
    elif kind == "below":
        x = np.maximum(-1e6 * (1 + rng.random(n)), low).astype(dtype)
    elif kind == "many":  # short floats' totals have no place in their type
        x = np.minimum(rng.integers(0, 1000, n), min(high, 1000)).astype(dtype)
    elif kind == "last":
        x[:, -1] = high
    elif kind == "one-hot":
        x = np.zeros(n, dtype)
        x[np.arange(n[0]), rng.integers(0, n[1], n[0])] = 1
    elif kind in FLOAT_DATA:
        _floats(kind, x, rng)
    return x


def _floats(kind: str, x: Any, rng: np.random.Generator) -> None:
    limits = ml_dtypes.finfo(x.dtype)
    rows, columns = x.shape
    places = [(rng.integers(rows), rng.integers(columns)) for _ in range(3)] + [(-1, -1), (0, 0)]
    chosen = [places[i] for i in rng.permutation(5)[: rng.integers(1, 4)]]
    if kind == "zeros":
        x[...] = np.where(rng.random(x.shape) < 0.5, 0.0, -0.0).astype(x.dtype)
    elif kind == "subnormal":
        x[rng.random(x.shape) < 0.7] = limits.smallest_subnormal * x.dtype.type(3)
    for i, place in enumerate(chosen):
        if kind == "nan":
            x[place] = -np.nan if i else np.nan
        elif kind == "infinities":
            x[place] = -np.inf if rng.random() < 0.3 else np.inf


def _random(case: Case, element: ElementType, rng: np.random.Generator, n: tuple[int, int]) -> Any:
    """For products near 1, so that they neither overflow nor vanish; for logarithms mostly positive; integers from the whole range."""
    if element.is_bool:
        return rng.random(n) < 0.5
    if not element.is_float:
        return rng.integers(*element.limits, n, element.numpy, endpoint=True)
    values = rng.standard_normal(n)
    if case.op == "prod":
        values = np.where(rng.random(n) < 64 / max(64, n[1]), 1 + values / 8, 1)
    elif case.op == "log_sum" and case.seed % 4:
        values = np.abs(values)
    return values.astype(element.numpy)


def laid_out(x: Any, case: Case) -> Any:
    """The same values, lying in memory as the case says."""
    rng = np.random.default_rng(case.seed + 1)
    if case.memory == "Fortran":
        return np.asfortranarray(x)
    if case.memory == "transposed":
        order = rng.permutation(x.ndim)
        return np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))
    if case.memory == "strided":
        spread = np.ones((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
        spread[..., ::2] = x
        return spread[..., ::2]
    if case.memory == "negative":
        turned = tuple(slice(None, None, int(step)) for step in rng.choice((-1, 1), x.ndim))
        return np.ascontiguousarray(x[turned])[turned]
    if case.memory == "read-only":
        x.flags.writeable = False
    elif case.memory == "big-endian" and case.dtype in BUILTIN:
        return x.astype(x.dtype.newbyteorder(">"))
    elif case.memory == "misaligned":
        moved = np.frombuffer(bytearray(x.nbytes + 1), np.uint8)[1:].view(x.dtype).reshape(x.shape)
        moved[...] = x
        return moved
    return x
