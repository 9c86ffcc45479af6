"""The GPU schedule, run: on an emulator of the instruction sets of gfx942 and gfx1100, bit for bit equal to `reference`.

The emulator is tinygrad's, from a checkout of its sources that IREE_REDUCE_TINYGRAD names (see tools/emulate.py).
"""

from __future__ import annotations

import functools
import math
import os
import random
import sys
from pathlib import Path

import pytest

from iree_reduce_plugin.element_types import NAMES, ElementType
from iree_reduce_plugin.errors import InputError, TuningError
from iree_reduce_plugin.ops import OPS
from iree_reduce_plugin.problem import Problem

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

from emulate import emulate, emulated_job, random_data
from hsaco_emulator import ENVIRONMENT, EmulatorMissing, open_emulator

SEED_1 = {"workgroup": [0], "reduction": [1024], "lane_basis": [[64], [0]], "subgroup_basis": [[4], [0]]}
SEED_2 = {"workgroup": [4, 0], "reduction": [0, 256], "lane_basis": [[4, 16], [0, 1]], "subgroup_basis": [[1, 4], [0, 1]]}
TYPES = ("f32", "f32", "f64", "f64", "f16", "bf16", "i32", "i64", *NAMES)
KINDS = ("sum", "max", "prod", *OPS)
MAX_ELEMENTS = 40_000  # a second or two of emulation


@functools.cache
def missing():
    """Why the emulator is not usable; None where it is."""
    if not os.environ.get(ENVIRONMENT):
        return f"{ENVIRONMENT} does not name a checkout of tinygrad"
    try:
        open_emulator()
    except EmulatorMissing as e:
        return str(e)
    return None


emulated = pytest.mark.skipif(missing() is not None, reason=f"no emulator: {missing()}")


def problems(target, size, count, seed):
    """Random tunings with problems that they fit: whole and partial tiles of rows and of K, every op and type."""
    rng = random.Random(seed)
    while count:
        lanes = rng.choice([n for n in (1, 2, 4, 8, 16, 32, 64) if n <= size])
        subgroups, elements, unroll = rng.randint(1, 8), rng.choice((1, 1, 2, 3, 4, 4, 5, 6, 8)), rng.choice((1, 1, 2))
        row_lanes, row_subgroups, thread_rows = size // lanes, rng.choice((1, 1, 2, 4)), rng.choice((1, 1, 2, 3))
        tile, row_tile = subgroups * lanes * elements, row_lanes * row_subgroups * thread_rows
        columns = tile * rng.randint(0, 3) + rng.choice((0, rng.randrange(tile)))
        rows = max(1, row_tile * rng.randint(0, 2) + rng.choice((0, rng.randrange(row_tile))))
        one = rows == 1
        if columns < 2 or subgroups * row_subgroups > 16 or rows * columns > MAX_ELEMENTS or (one and row_tile > 1):
            continue
        tuning = {
            "workgroup": [0] if one else [row_tile, 0],
            "partial_reduction": [tile * unroll] if one else [0, tile * unroll],
            "thread": [elements] if one else [thread_rows, elements],
            "lane_basis": [[lanes], [0]] if one else [[row_lanes, lanes], [0, 1]],
            "subgroup_basis": [[subgroups], [0]] if one else [[row_subgroups, subgroups], [0, 1]],
        }
        dtype = rng.choice(TYPES)
        element, op, initial = ElementType(dtype), rng.choice(KINDS), rng.choice((None, None, 1))
        if target == "gfx1100" and element.bits == 16 and elements & (elements - 1):
            continue  # without buffer instructions LLVM can't select code for the 16-bit tails of these
        try:
            problem = Problem.of((columns,) if one else (rows, columns), element, op, initial=initial)
            emulated_job(problem, tuning, target)
        except (InputError, TuningError):  # bits of floats, the initial value of a mean; more accumulators than registers
            continue
        count -= 1
        name = f"{op}-{rows}x{columns}x{dtype}-R{row_subgroups}.{row_lanes}.{thread_rows}-S{subgroups}-L{lanes}-E{elements}-B{unroll}"
        yield pytest.param(problem, tuning, id=name + ("" if problem.initial in (None, op == "prod") else f"-i{problem.initial}"))


FORMS = {  # name -> (the loops of each axis, the reduced axes)
    "columns": (("K", "inner"), 0),
    "middle": (("rows", "K", "inner"), 1),
    "apart": (("K", "rows", "K"), (0, 2)),
    "apart, inner": (("K", "rows", "K", "inner"), (0, 2)),
    "rows apart": (("rows", "K", "rows", "K"), (1, 3)),
    "rows": (("rows", "K"), 1),
}


def layouts(target, size, count, seed):
    """Random tunings of every form: lanes, subgroups and elements along each loop, in any order, whole and partial tiles."""
    rng = random.Random(seed)
    while count:
        form = rng.choice(list(FORMS))
        axes, reduced = FORMS[form]
        loops = [name for name in ("rows", "inner", "K") if name in axes]
        lanes = dict.fromkeys(loops, 1)
        for _ in range(size.bit_length() - 1):
            lanes[rng.choice(loops)] *= 2
        subgroups = {name: rng.choice((1, 1, 2, 3, 4)) for name in loops}
        elements = {name: rng.choice((1, 2, 3, 4, 5)) for name in loops}
        extents = {}
        for name in loops:
            tile = lanes[name] * subgroups[name] * elements[name]
            extents[name] = max(1, tile * rng.randint(0, 2) + rng.choice((0, rng.randrange(tile))))
        shape = []
        for axis, name in enumerate(axes):
            parts = axes.count(name)
            shape.append(extents[name] if parts == 1 else max(2, extents[name] // 3) if axis == axes.index(name) else 3)
        if 1 in shape or min(shape) < 2 or math.prod(shape) > MAX_ELEMENTS or math.prod(subgroups.values()) > 16:
            continue
        orders = [rng.sample(range(len(loops)), len(loops)) for _ in range(2)]
        tuning = {"thread": [elements[name] for name in loops]}
        for basis, counts, mapping in (("lane_basis", lanes, orders[0]), ("subgroup_basis", subgroups, orders[1])):
            digits = [0] * len(loops)
            for name, digit in zip(loops, mapping, strict=True):
                digits[digit] = counts[name]
            tuning[basis] = [digits, mapping]
        dtype = rng.choice(TYPES)
        element = ElementType(dtype)
        if target == "gfx1100" and element.bits == 16:
            continue
        op = rng.choice(("sum", "max", "prod", "sum_of_squares", "fmin"))
        problem = Problem.of(tuple(shape), element, op, reduced, initial=rng.choice((None, None, 1)))
        try:
            emulated_job(problem, tuning, target)
        except TuningError:
            continue
        count -= 1
        spelled = "-".join("".join(map(str, tuning[key])).replace(" ", "") for key in ("thread", "lane_basis", "subgroup_basis"))
        yield pytest.param(problem, tuning, id=f"{form}-{problem.op.name}-{'x'.join(map(str, shape))}x{dtype}-{spelled}")


def check(problem, tuning, target):
    found = emulate(emulated_job(problem, tuning, target), random_data(problem))
    assert found.right, f"{problem} {tuning}: {found.result.ravel()[:4]} is not {found.expected.ravel()[:4]}"
    assert found.run.out_of_range == 0
    return found


@emulated
@pytest.mark.parametrize("target", ["gfx942", "gfx90a"])
@pytest.mark.parametrize(("shape", "tuning", "most"), [((4096,), SEED_1, 255), ((4, 4096), SEED_2, 443)], ids=["4096", "4x4096"])
def test_seed(shape, tuning, most, target):
    found = check(Problem.of(shape), tuning, target)
    assert found.workgroups == 1 and found.run.total <= most
    assert found.run.kinds["barrier"] == 4  # one for each subgroup


@emulated
@pytest.mark.parametrize(("problem", "tuning"), [*problems("gfx942", 64, 40, 1)])
def test_gfx942(problem, tuning):
    check(problem, tuning, "gfx942")


@emulated
@pytest.mark.parametrize(("problem", "tuning"), [*layouts("gfx942", 64, 40, 4)])
def test_layouts_on_gfx942(problem, tuning):
    check(problem, tuning, "gfx942")


@emulated
@pytest.mark.parametrize(("problem", "tuning"), [*problems("gfx1100", 32, 10, 2), *layouts("gfx1100", 32, 10, 5)])
def test_gfx1100_with_subgroups_of_32(problem, tuning):
    check(problem, tuning, "gfx1100")


@pytest.mark.slow
@emulated
@pytest.mark.parametrize(
    ("target", "problem", "tuning"),
    [
        pytest.param(target, *given.values, id=f"{target}-{given.id}")
        for target, size, count in (("gfx942", 64, 200), ("gfx90a", 64, 30), ("gfx1100", 32, 30))
        for given in (*problems(target, size, count, 3), *layouts(target, size, count // 2, 6))
    ],
)
def test_more(target, problem, tuning):
    check(problem, tuning, target)


@emulated
def test_the_default_tuning():
    check(Problem.of((7, 1001), "f16"), None, "gfx942")


@emulated
def test_a_wrong_result_shows():
    """The array is changed behind the reference's back, so that the two differ as a wrong kernel's would."""
    job = emulated_job(Problem.of((4096,)), SEED_1, "gfx942")
    x = random_data(job.problem)
    first = emulate(job, x)
    x[4095] += 1
    assert first.right and emulate(job, x).right
    assert first.result != emulate(job, x).result


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("", "no checkout of tinygrad is named: git clone"),
        ("/nowhere", "/nowhere is not a checkout of tinygrad"),
        (__file__, "is not a checkout"),
    ],
)
def test_what_is_missing_is_said_in_one_line(monkeypatch, given, reason):
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    with pytest.raises(EmulatorMissing, match=reason) as caught:
        open_emulator(given)
    assert "\n" not in str(caught.value)


def test_clang_is_missing(monkeypatch, tmp_path):
    (tmp_path / "test" / "mockgpu" / "amd").mkdir(parents=True)
    (tmp_path / "test" / "mockgpu" / "amd" / "emu.py").touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EmulatorMissing, match="clang is not on the PATH"):
        open_emulator(str(tmp_path))
