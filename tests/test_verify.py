"""`verify`: every refusal with the field, the value and the limit in it, and the default tunings, which it accepts."""

import dataclasses
import itertools
import re

import pytest
from one_line import check_one_line
from seeds import SEED_1, SEED_2

from iree_reduce_plugin.defaults import default_tuning
from iree_reduce_plugin.element_types import NAMES
from iree_reduce_plugin.errors import InputError, ReduceError, TuningError
from iree_reduce_plugin.layout import Layout
from iree_reduce_plugin.problem import Problem
from iree_reduce_plugin.targets import TARGETS
from iree_reduce_plugin.tuning import Tuning
from iree_reduce_plugin.verify import MAX_CPU_ACCUMULATOR_BYTES, verify, verify_problem


def one(**changes):
    """Seed 1 with some fields changed; None leaves a field out."""
    return {key: value for key, value in (SEED_1 | changes).items() if value is not None}


def two(**changes):
    return {key: value for key, value in (SEED_2 | changes).items() if value is not None}


@pytest.mark.parametrize("target", ["cpu", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"])
@pytest.mark.parametrize("tuning, shape", [(SEED_1, (4096,)), (SEED_2, (4, 4096)), (SEED_2, (3, 1000))])
def test_the_seeds_fit_every_target(tuning, shape, target):
    full = verify(tuning, shape, target=target)
    assert full == Tuning.parse(tuning).resolve(Problem.of(shape))
    if target != "cpu":
        assert verify(tuning, shape, target=target, strategy="iree") == full


def test_accepted():
    verify(one(subgroup_basis=[[3], [0]], reduction=[768], workgroup_size=None), (4096,), target="gfx942")  # three subgroups
    verify(one(lane_basis=[[32], [0]], subgroup_size=32, workgroup_size=[128, 1, 1]), (4096,), target="gfx1100")
    verify(one(subgroup_basis=[[16], [0]], workgroup_size=[1024, 1, 1]), (4096,), target="gfx942")
    verify(two(lane_basis=[[3, 16], [0, 1]], workgroup=[3, 0], subgroup_size=48, workgroup_size=None), (4, 4096))  # rows on the cpu
    verify(one(reduction=[2048], thread=[4]), (4096,), target="gfx942")  # two steps at a time
    verify(one(subgroup_basis=[[64], [0]], reduction=[16384], workgroup_size=[4096, 1, 1]), (4096,))  # no threads on the cpu
    assert verify(two(), (4, 1)) == Tuning.parse(SEED_2)  # nothing to reduce
    assert verify(two(), (0, 4), axis=0) == Tuning.parse(SEED_2)
    verify(two(), (4, 64, 64), axis=(1, 2), target="gfx942")
    verify(one(), (64, 64), axis=None, target="gfx942")
    verify(two(lane_basis=[[16, 4], [1, 0]], subgroup_basis=[[4, 1], [1, 0]]), (4, 4096), target="gfx942")
    verify(two(), (4096, 4), axis=0, target="gfx942")
    three = {"lane_basis": [[8, 2, 4], [1, 2, 0]], "subgroup_basis": [[2, 3, 1], [2, 0, 1]], "thread": [1, 2, 1]}
    assert verify(three, (7, 100, 33), axis=1, target="gfx942").workgroup == (2, 16, 0)  # 1 x 2 x 1 and 2 x 4 x 2


GFX942, IREE = {"target": "gfx942"}, {"target": "gfx942", "strategy": "iree"}
F32_1 = (4096,)
F32_2 = (4, 4096)
REFUSED = [  # tuning, shape, words; other arguments last
    (one(subgroup_basis=[[8], [0]]), F32_1, "workgroup_size [256, 1, 1]", "256 threads", "8 subgroups of 64", "512"),
    (one(subgroup_basis=[[2], [0]]), F32_1, "workgroup_size [256, 1, 1]", "2 subgroups of 64", "[128, 1, 1]"),
    (one(subgroup_basis=None), F32_1, "workgroup_size [256, 1, 1]", "1 subgroups of 64", "subgroup_basis"),
    (one(lane_basis=[[48], [0]]), F32_1, "lane_basis", "48 lanes", "power of two", "32 or 64"),
    (one(lane_basis=None, subgroup_size=48), F32_1, "lane_basis", "48 lanes", "power of two"),
    (one(lane_basis=[[128], [0]]), F32_1, "128 lanes", "subgroup_size is 64", "set subgroup_size to 128"),
    (two(lane_basis=[[2, 16], [0, 1]]), F32_2, "2 x 16 = 32 lanes", "subgroup_size is 64"),
    (one(lane_basis=[[64], [1]]), F32_1, "lane_basis mapping", "index 1", "out of range"),
    (two(lane_basis=[[4, 16], [0, 0]]), F32_2, "lane_basis mapping", "index 0", "doubled"),
    (one(reduction=[1000]), F32_1, "reduction 1000", "4 subgroups x 64 lanes = 256", "768 or 1024"),
    (one(reduction=None, partial_reduction=[1000]), F32_1, "partial_reduction 1000", "4 subgroups x 64 lanes = 256"),
    (one(reduction=[128]), F32_1, "reduction 128", "4 subgroups x 64 lanes = 256", "use 256"),
    (one(reduction=[0]), F32_1, "reduction 0", "4 subgroups x 64 lanes = 256", "use 256"),
    (one(thread=[3]), F32_1, "reduction 1024", "thread [3]", "4 subgroups x 64 lanes x 3 elements = 768", "leave thread out"),
    (one(thread=[8]), F32_1, "reduction 1024", "thread [8]", "2048", "use 2048"),
    (one(reduction=None), F32_1, "partial_reduction is left out", "thread", "256"),
    ({}, F32_1, "partial_reduction is left out"),
    (one(workgroup=[4]), F32_1, "workgroup [4]", "entry 4", "reduced loop", "set it to 0"),
    (two(workgroup=[4, 256]), F32_2, "workgroup [4, 256]", "entry 256", "reduced loop", "set it to 0"),
    (two(reduction=[4, 256]), F32_2, "reduction [4, 256]", "entry 4", "parallel loop", "set it to 0"),
    (two(workgroup=[6, 0]), F32_2, "row tile of 6", "1 row subgroups x 4 row lanes = 4", "use 4 or 8"),
    (two(workgroup=[2, 0]), F32_2, "row tile of 2", "use 4"),
    (two(workgroup=[0, 0]), (6, 4096), "row tile of 6 (all rows)", "4 row lanes = 4"),
    (two(thread=[2, 4]), F32_2, "row tile of 4", "4 row lanes x 2 thread rows = 8", "leave thread out"),
    (two(), F32_1, "entry 4", "loop of extent 1", "(K=4096)", "0 or 1"),
    (one(lane_basis=[[4, 16], [0, 1]]), F32_1, "lane_basis [[4, 16], [0, 1]]", "count 4", "extent 1", "give 1"),
    (one(), F32_2, "workgroup has 1 entry", "2 loops", "(rows=4, K=4096)"),
    (two(workgroup=[4, 0, 0]), F32_2, "workgroup has 3 entries", "2 loops", "(rows=4, K=4096)"),
    (two(subgroup_basis=[[1, 1, 4], [0, 1, 2]]), F32_2, "subgroup_basis has 3 entries", "2 loops"),
    (two(workgroup=[2, 2, 0]), (2, 2, 4096), "workgroup has 3 entries", "(rows=4, K=4096)"),
    (one(workgroup_size=[64, 4, 1]), F32_1, "workgroup_size [64, 4, 1]", "along x only", "[256, 1, 1]"),
    (one(subgroup_basis=[[32], [0]], workgroup_size=[2048, 1, 1], reduction=[8192]), F32_1, "2048", "1024 threads", "at most 16", GFX942),
    (one(lane_basis=[[32], [0]], subgroup_size=32, workgroup_size=[128, 1, 1]), F32_1, "subgroup_size 32", "gfx942", "use 64", GFX942),
    (one(lane_basis=[[16], [0]], subgroup_size=16, workgroup_size=[64, 1, 1]), F32_1, "subgroup_size 16",
     "32 or 64", {"target": "gfx1100"}),
    (one(reduction=[1 << 16]), (1 << 20,), "thread [256]", "256 f32 accumulators", "need 768 registers", "256 of gfx942", GFX942),
    (one(reduction=[1 << 15]), (1 << 20,), "128 f64 accumulators", "loads of 256 registers", "need 768", GFX942 | {"dtype": "f64"}),
    (two(workgroup=[64, 0], reduction=[0, 1024]), (64, 4096), "thread [16, 16]", "256 f32 accumulators", GFX942),
    (one(reduction=[1 << 18], thread=[4]), (1 << 20,), "partial_reduction", "256 steps", "1024 registers", "above 256", GFX942),
    ({"workgroup": [2048, 0], "reduction": [0, 16], "lane_basis": [[64, 1], [0, 1]], "subgroup_basis": [[1, 16], [0, 1]],
      "thread": [32, 1]}, (4096, 4096), "2048 rows x 16 subgroups x 4 bytes", "131072 bytes of shared memory", "65536 of gfx942", GFX942),
    (one(reduction=[1 << 20]), (1 << 20,), "1048576 f32 accumulators", str(MAX_CPU_ACCUMULATOR_BYTES), "at most 32768"),
    (one(reduction=[1 << 21], thread=[4]), (1 << 20,), "partial_reduction 2097152", "1048576", "cpu"),
    (two(workgroup=[1 << 20, 0]), (1 << 20, 64), "thread", "262144 along rows a lane", "65536"),
    (two(lane_basis=[[32, 2], [0, 1]], workgroup=[32, 0]), (32, 4096), "lane_basis [[32, 2], [0, 1]]",
     "2 lanes and 4 subgroups", "at least 4 lanes", IREE),
    (two(lane_basis=[[32, 2], [0, 1]], subgroup_basis=[[1, 3], [0, 1]], workgroup=[32, 0], reduction=[0, 96], workgroup_size=None),
     (32, 4096), "2 lanes and 3 subgroups", "at least 4 lanes", IREE),
    (one(), F32_1, "strategy 'default'", "leave the tuning out", {"strategy": "default"}),
    ({"workgrup": [0]}, F32_1, "workgrup", "did you mean workgroup?"),
    (one(reduction=[-1]), F32_1, "reduction", "-1", "at least 0"),
    (one(partial_reduction=[1024]), F32_1, "partial_reduction", "reduction", "only one"),
    ("no_such_file.json", F32_1, "no_such_file.json", "does not exist"),
    ('{"workgroup": [0', F32_1, "broken JSON", "line 1, column 17"),
]  # fmt: skip


def split(case):
    *words, last = case[2:]
    return (case[0], case[1], words, last) if isinstance(last, dict) else (case[0], case[1], [*words, last], {})


@pytest.mark.parametrize("tuning, shape, words, arguments", [split(case) for case in REFUSED], ids=range(len(REFUSED)))
def test_refused_in_one_line(tuning, shape, words, arguments):
    with pytest.raises(TuningError) as e:
        verify(tuning, shape, **arguments)
    check_one_line(str(e.value), words, 320)


INPUTS = [  # arguments, words
    ({"shape": (4, 8, 64), "axis": (0, 2), **IREE}, "strategy 'iree'", "3 dimensions of memory", "reduced axes last"),
    ({"shape": (4096,), "strategy": "iree"}, "strategy 'iree'", "cpu", "gfx942"),
    ({"shape": (4096,), "strategy": "fast"}, "strategy 'fast'", "subgroup, iree, default"),
    ({"shape": (4096,), "target": "gfx943"}, "gfx943", "did you mean gfx9"),
    ({"shape": (3, 2**30), "dtype": "i1", "target": "vulkan8"}, "3221225472 elements", "above the 2147483647", "reduce parts"),
    ({"shape": (4096,), "dtype": "object"}, "object"),
    ({"shape": (4096,), "op": "summ"}, "summ", "sum, prod"),
]  # fmt: skip


@pytest.mark.parametrize("arguments, words", [(case[0], case[1:]) for case in INPUTS], ids=range(len(INPUTS)))
def test_inputs_that_are_refused(arguments, words):
    with pytest.raises(InputError) as e:
        verify(SEED_1, **arguments)
    assert "\n" not in str(e.value)
    for word in words:
        assert word in str(e.value)


# Lanes and subgroups along K, as measured on emulated gfx942: 128x4096 f32.
IREE_WRONG = [(1, 2), (1, 4), (2, 4), (2, 16), (4, 8), (4, 16)]
IREE_RIGHT = [(4, 4), (8, 2), (16, 16), (64, 16), (1, 1)]


@pytest.mark.parametrize("lanes, subgroups", IREE_WRONG + IREE_RIGHT)
def test_where_the_pipeline_of_iree_is_wrong(lanes, subgroups):
    tuning = Tuning(thread=(1, 4), lane_basis=((64 // lanes, lanes), (0, 1)), subgroup_basis=((1, subgroups), (0, 1)))
    assert verify(tuning, (128, 4096), target="gfx942")  # ours is right everywhere
    if (lanes, subgroups) in IREE_RIGHT:
        assert verify(tuning, (128, 4096), target="gfx942", strategy="iree")
    else:
        with pytest.raises(TuningError, match="wrong results"):
            verify(tuning, (128, 4096), target="gfx942", strategy="iree")


# Defaults


ROWS = (0, 1, 2, 3, 5, 17, 303, 304, 1025, 1 << 20)
COLUMNS = (0, 1, 2, 3, 7, 31, 32, 33, 63, 64, 65, 255, 256, 257, 1000, 4096, 4097, 33024, 128256, (1 << 24) + 4)


@pytest.mark.parametrize("target", list(TARGETS.values()), ids=TARGETS)
@pytest.mark.parametrize("element", NAMES)
def test_defaults_fit_their_target(target, element):
    first = list(NAMES).index(element) + list(TARGETS).index(target.name)  # a quarter of the shapes for each, others for the next
    for rows, columns in list(itertools.product(ROWS, COLUMNS))[first % 4 :: 4]:
        problem = Problem.of((rows, columns), element)
        if target.backend == "vulkan" and rows * columns >= 2**31:
            continue  # refused, whatever the tuning
        tuning = default_tuning(problem, target)
        assert verify_problem(tuning, problem, target) == tuning == tuning.resolve(problem)
        if target.is_rocm:
            whole = dataclasses.replace(tuning, split_reduction=None)
            assert verify_problem(whole, problem, target, "iree") == whole
        if columns != 1 and not problem.is_empty:
            layout = Layout.of(problem, tuning)
            if target.is_gpu:
                assert layout.accumulators * layout.accumulator_bytes // 4 <= 64
            else:
                assert layout.full_steps >= 1


@pytest.mark.parametrize(
    "shape, element, target, lanes, subgroups, thread",
    [
        ((4, 4096), "f32", "cpu", (1, 16), (1, 1), (1, 4)),
        ((4096,), "f32", "cpu", (16,), (1,), (4,)),
        ((4, 33), "f32", "cpu", (1, 8), (1, 1), (1, 4)),
        ((4, 3), "f32", "cpu", (1, 1), (1, 1), (1, 2)),
        ((4, 4096), "f32", "gfx942", (1, 64), (1, 16), (1, 4)),
        ((4, 4096), "f16", "gfx942", (1, 64), (1, 8), (1, 8)),
        ((4, 4096), "f64", "gfx942", (1, 64), (1, 16), (1, 2)),
        ((304, 4096), "f32", "gfx942", (1, 64), (1, 4), (1, 4)),
        ((304, 300), "f32", "gfx942", (1, 64), (1, 1), (1, 4)),
        ((304, 32), "f32", "gfx942", (8, 8), (1, 1), (1, 4)),
        ((32,), "f32", "gfx942", (64,), (1,), (4,)),
        ((4, 4096), "f32", "gfx1100", (1, 32), (1, 16), (1, 4)),
    ],
)
def test_defaults(shape, element, target, lanes, subgroups, thread):
    tuning = default_tuning(Problem.of(shape, element), TARGETS[target])
    assert (tuning.lane_basis[0], tuning.subgroup_basis[0], tuning.thread) == (lanes, subgroups, thread)


def test_errors_share_a_root():
    assert issubclass(InputError, ReduceError)
    assert issubclass(InputError, ValueError)


@pytest.mark.parametrize("target", [name for name, target in TARGETS.items() if target.is_gpu])
@pytest.mark.parametrize(
    ("shape", "tuning"),
    [
        ((4096,), {"lane_basis": [[128], [0]], "subgroup_basis": [[4], [0]], "thread": [4]}),
        ((4096,), {"lane_basis": [[2], [0]], "subgroup_basis": [[4], [0]], "thread": [4]}),
        ((100, 4096), {"lane_basis": [[2, 64], [0, 1]], "subgroup_basis": [[2, 64], [0, 1]], "thread": [3, 8]}),
        ((1000, 33), {"lane_basis": [[2, 1], [0, 1]], "subgroup_basis": [[16, 1], [0, 1]], "thread": [4, 2]}),
    ],
)
def test_another_subgroup_size_is_refused_with_a_tuning_that_fits(shape, tuning, target):
    with pytest.raises(TuningError, match=r"subgroup_size [0-9]+ is not one that") as refusal:
        verify(tuning, shape, target=target)
    verify(re.search(r"e\.g\. (.*)$", str(refusal.value)).group(1), shape, target=target)
