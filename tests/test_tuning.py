"""`Tuning`: its spellings, what is derived from what, and what it refuses whatever the problem."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from iree.compiler import ir
from one_line import check_one_line
from seeds import SEED_1, SEED_2

from iree_reduce_plugin.errors import InputError, ReduceError, TuningError
from iree_reduce_plugin.problem import Problem
from iree_reduce_plugin.tuning import Tuning, product

ORIGINAL_1 = """
    #iree_codegen.compilation_info<
      lowering_config = #iree_gpu.lowering_config<{workgroup = [0], reduction = [1024], thread_basis = [[64], [0]],
        subgroup_basis = [[4], [0]]}>,
      translation_info = #iree_codegen.translation_info<pipeline = LLVMGPUVectorDistribute
        workgroup_size = [256, 1, 1] subgroup_size = 64, {}>>
    """
SEEDS = [(SEED_1, Problem.of((4096,))), (SEED_2, Problem.of((4, 4096)))]


@pytest.fixture
def file(tmp_path):
    def write(text: str) -> Path:
        path = tmp_path / "tuning.json"
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.mark.parametrize("seed", [SEED_1, SEED_2])
def test_every_form_of_a_seed_reads_as_the_same_tuning(seed, file):
    tuning = Tuning.parse(seed)
    path = file(json.dumps(seed))
    entry = {"name": "reduce_4096", "input": "4096xf32", "op": "sum", "axis": -1, "target": "gfx942", "tuning": seed}
    original = {("thread_basis" if key == "lane_basis" else key): value for key, value in seed.items()}
    forms = [tuning, json.dumps(seed), path, str(path), entry, json.dumps([entry]), original, {**seed, "pipeline": "VectorDistribute"}]
    forms += [{**original, "pipeline": "LLVMGPUVectorDistribute"}, "\n " + json.dumps(seed, indent=2), tuning.to_dict(), tuning.to_json()]
    forms += [tuning.to_attribute(), tuning.to_attribute("original"), "\n" + tuning.to_attribute("original").replace(", ", ",\n  ")]
    for form in forms:
        assert Tuning.parse(form) == tuning, form
    assert tuning.to_dict() == seed
    assert hash(Tuning.parse(seed)) == hash(tuning)


def test_the_original_attribute_as_it_was_written():
    assert Tuning.parse(ORIGINAL_1) == Tuning.parse(SEED_1)


def test_files_hold_an_entry_an_attribute_or_a_byte_order_mark(file):
    assert Tuning.parse(file(json.dumps({"name": "a", "tuning": SEED_2}))) == Tuning.parse(SEED_2)
    assert Tuning.parse(file(ORIGINAL_1)) == Tuning.parse(SEED_1)
    assert Tuning.parse(file("\ufeff" + json.dumps(SEED_1))) == Tuning.parse(SEED_1)


@pytest.mark.parametrize("seed", [SEED_1, SEED_2, {}, {"partial_reduction": [512], "thread": [4]}, {"workgroup_size": [64]}])
def test_iree_reads_the_current_spelling(seed):
    with ir.Context():
        assert "lowering_config" in str(ir.Attribute.parse(Tuning.parse(seed).to_attribute()))


def test_values_are_normalised():
    assert Tuning(workgroup=[4, 0], workgroup_size=[64]) == Tuning(workgroup=(4, 0), workgroup_size=(64, 1, 1))
    tuning = Tuning(workgroup=(np.int64(4), 0), subgroup_size=np.int32(64))
    assert type(tuning.workgroup[0]) is int
    assert type(tuning.subgroup_size) is int


COUNTS = st.integers(1, 64)
BASES = st.permutations([0, 1]).flatmap(lambda m: st.tuples(st.lists(COUNTS, min_size=2, max_size=2), st.just(m)))
ENTRIES = st.lists(st.integers(0, 4096), min_size=1, max_size=4)


@given(
    tile=st.dictionaries(st.sampled_from(["partial_reduction", "reduction"]), ENTRIES, max_size=1),
    rest=st.fixed_dictionaries(
        {},
        optional={
            "workgroup": ENTRIES,
            "thread": ENTRIES,
            "lane_basis": BASES,
            "subgroup_basis": BASES,
            "workgroup_size": st.lists(st.integers(1, 1024), min_size=3, max_size=3),
            "subgroup_size": COUNTS,
        },
    ),
)
def test_round_trips(tile, rest):
    tuning = Tuning(**tile, **rest)
    for form in (tuning.to_dict(), tuning.to_json(), tuning.to_attribute(), tuning.to_attribute("original")):
        assert Tuning.parse(form) == tuning
    assert "\n" not in str(tuning)


@given(st.sampled_from([*map(json.dumps, (SEED_1, SEED_2)), ORIGINAL_1]), st.data())
def test_damaged_text_is_read_or_refused_in_one_line(text, data):
    at = data.draw(st.integers(0, len(text) - 1))
    damaged = text[:at] + data.draw(st.sampled_from(["", "[", "}", "<", "=", '"', "7", "-", ",", "é", "\x00"])) + text[at + 1 :]
    try:
        Tuning.parse(damaged)
    except TuningError as e:
        assert "\n" not in str(e)


# Resolving


@pytest.mark.parametrize("seed, problem", SEEDS)
def test_a_seed_resolved(seed, problem):
    tuning = Tuning.parse(seed)
    full = tuning.resolve(problem)
    assert full.partial_reduction == tuning.reduction
    assert full.reduction is None
    assert full.thread == ((4,) if len(problem.loops) == 1 else (1, 4))
    assert (full.workgroup, full.workgroup_size, full.subgroup_size) == (tuning.workgroup, tuning.workgroup_size, 64)
    assert full.resolve(problem) == full
    renamed = {("partial_reduction" if key == "reduction" else key): value for key, value in seed.items()}
    assert Tuning.parse(renamed).resolve(problem) == full


def resolved(shape=(4, 4096), **given):
    return Tuning(**given).resolve(Problem.of(shape))


def test_what_is_left_out_follows():
    full = resolved(partial_reduction=(0, 512), subgroup_size=64)
    assert (full.lane_basis, full.subgroup_basis) == (((1, 64), (0, 1)), ((1, 1), (0, 1)))
    assert (full.workgroup, full.thread, full.workgroup_size) == ((1, 0), (1, 8), (64, 1, 1))
    full = resolved(thread=(2, 4), lane_basis=((4, 16), (0, 1)))
    assert (full.workgroup, full.partial_reduction, full.subgroup_size) == ((8, 0), (0, 64), 64)
    full = resolved(thread=(0, 4), workgroup=(8, 0), partial_reduction=(0, 128), lane_basis=((4, 16), (0, 1)))
    assert full.thread == (2, 4)
    assert product(full) == "128 = 2 steps x 1 subgroups x 16 lanes x 4 elements"


def test_workgroup_zero_is_all_rows():
    full = resolved(workgroup=(0, 0), partial_reduction=(0, 64), lane_basis=((2, 32), (0, 1)))
    assert (full.workgroup, full.thread) == ((4, 0), (2, 2))
    assert resolved(workgroup=(16, 0), partial_reduction=(0, 64), lane_basis=((4, 16), (0, 1))).thread == (4, 4)  # more rows than there are


@pytest.mark.parametrize("one", [0, 1])
def test_entries_of_dropped_loops(one):
    short = resolved((4096,), **SEED_1)
    assert resolved((1, 4096), **SEED_1) == short
    long = {
        **SEED_1,
        "workgroup": [one, 0],
        "reduction": [one, 1024],
        "lane_basis": [[1, 64], [0, 1]],
        "subgroup_basis": [[1, 4], [0, 1]],
        "thread": [one, 4],
    }
    for shape in ((1, 4096), (4096,), (1, 1, 4096)):
        assert resolved(shape, **long) == short
    assert resolved((1, 4096), **{**long, "lane_basis": [[64, 1], [1, 0]]}) == short
    three = {**SEED_2, "workgroup": [4, one, 0], "reduction": [0, one, 256], "lane_basis": [[4, 1, 16], [0, 1, 2]]}
    assert resolved((4, 1, 4096), **three) == resolved((4, 4096), **SEED_2)


@pytest.mark.parametrize("shape", [(4, 1), (1,), (0, 4096), (4, 0)])
def test_with_nothing_to_reduce_any_tuning_will_do(shape):
    assert resolved(shape, **SEED_1) == Tuning.parse(SEED_1)


def test_counts_follow_the_mapping_as_in_the_code_of_iree():
    tuning = Tuning(lane_basis=((2, 3, 5), (1, 2, 0)), subgroup_basis=((7, 1, 1), (2, 0, 1)))
    assert [tuning.lanes(i) for i in range(3)] == [3, 5, 2]
    assert [tuning.subgroups(i) for i in range(3)] == [1, 7, 1]


def test_what_is_not_given_is_not_made_up():
    with pytest.raises(TuningError, match="partial_reduction is left out"):
        _ = Tuning().reduction_tile
    with pytest.raises(TuningError, match="lane_basis is left out"):
        Tuning().lanes(0)
    assert Tuning(reduction=(8,)).reduction_tile == (8,)


def test_str_keeps_what_was_given_and_shows_what_follows():
    text = str(Tuning.parse(SEED_2))
    assert "reduction [0, 256]" in text
    assert "partial_reduction" not in text
    assert "derived: thread [1, 4] (256 = 4 subgroups x 16 lanes x 4 elements)" in text
    assert "derived" not in str(Tuning.parse(SEED_1).resolve(Problem.of((4096,))))
    assert "follows from the problem" in str(Tuning(workgroup=(0, 0), partial_reduction=(0, 64)))
    assert "nothing given" in str(Tuning())


# Refusals of form: what is given, and words of the one line


REFUSED = [
    ({"workgroup": [4.0, 0]}, "workgroup", "4.0", "float"),
    ({"workgroup": [True, 0]}, "workgroup", "True", "bool"),
    ({"workgroup": ["4", 0]}, "workgroup", "'4'", "str"),
    ({"workgroup": 4}, "workgroup", "4", "not a list"),
    ({"workgroup": "4"}, "workgroup", "'4'", "not a list"),
    ({"workgroup": []}, "workgroup", "empty"),
    ({"workgroup": [-4, 0]}, "workgroup", "-4", "at least 0"),
    ({"thread": [1, -4]}, "thread", "-4", "at least 0"),
    ({"reduction": [0, -256]}, "reduction", "-256", "at least 0"),
    ({"partial_reduction": [1 << 40]}, "partial_reduction", str(1 << 40), "2147483647"),
    ({"partial_reduction": [256], "reduction": [256]}, "partial_reduction", "reduction", "only one"),
    ({"lane_basis": [64]}, "lane_basis", "[64]", "[[counts], [mapping]]"),
    ({"lane_basis": [[64], [0], [0]]}, "lane_basis", "[[counts], [mapping]]"),
    ({"lane_basis": {"counts": 1}}, "lane_basis", "[[counts], [mapping]]"),
    ({"lane_basis": [[0], [0]]}, "lane_basis", "0", "at least 1"),
    ({"lane_basis": [[4, 16], [0]]}, "lane_basis", "2 counts", "1 mapping"),
    ({"lane_basis": [[4, 16], [0, 2]]}, "lane_basis", "index 2", "out of range"),
    ({"lane_basis": [[4, 16], [0, -1]]}, "lane_basis mapping", "-1", "at least 0"),
    ({"subgroup_basis": [[4, 16], [1, 1]]}, "subgroup_basis", "index 1", "doubled"),
    ({"workgroup_size": [64, 1, 1, 1]}, "workgroup_size", "4 entries", "at most 3"),
    ({"workgroup_size": [0, 1, 1]}, "workgroup_size", "0", "at least 1"),
    ({"subgroup_size": 0}, "subgroup_size", "0", "at least 1"),
    ({"subgroup_size": 64.0}, "subgroup_size", "64.0", "float"),
    ({"subgroup_size": [64]}, "subgroup_size", "[64]", "list"),
    ({"lane_bases": [[64], [0]]}, "lane_bases", "did you mean lane_basis?"),
    ({"Workgroup": [0]}, "Workgroup", "did you mean workgroup?"),
    ({"zzz": 1}, "zzz", "the keys are"),
    ({3: 1}, "3", "the keys are"),
    ({"mma_kind": 1}, "mma_kind", "not supported", "leave it out"),
    ({"promote_operands": [0]}, "promote_operands", "not supported"),
    ({"subgroup_m_count": 2}, "subgroup_m_count", "subgroup_basis"),
    ({"serial": [0, 4]}, "serial", "not supported"),
    ({"pipeline": "LLVMGPUTileAndFuse"}, "pipeline", "LLVMGPUTileAndFuse", "VectorDistribute"),
    ({"pipeline": 3}, "pipeline", "3", "VectorDistribute"),
    ({"thread_basis": [[64], [0]], "lane_basis": [[64], [0]]}, "lane_basis", "thread_basis", "only one"),
    ({"tuning": [1]}, "tuning", "[1]", "not an object"),
    ({"tuning": {"tuning": {}}}, "tuning", "not an object"),
    (None, "NoneType", "give a Tuning"),
    (b"{}", "bytes", "give a Tuning"),
    ("", "empty"),
    ("no/such.json", "no/such.json", "does not exist"),
    (Path("no/such.json"), "no/such.json", "does not exist"),
    (Path("."), "can't be read"),
    ("x" * 5000, "can't be read"),
    ("\x00", "can't be read"),
    ('{"workgroup": [0],\n "reduction": [1024,]}', "broken JSON", "line 2, column"),
    ('\n{"workgroup" 3}', "broken JSON", "line 2, column 14"),
    ("{", "broken JSON", "line 1"),
    ("[" * 100000, "broken JSON"),
    ('{"subgroup_size": 1' + "0" * 9000 + "}", "too long"),
    ('{"workgroup": [0], "workgroup": [4]}', "workgroup", "2 times"),
    ("[]", "not a JSON object"),
    ('[{"workgroup": [0]}, {}]', "2 tunings", "one of them"),
    ("[3]", "3", "not a JSON object"),
    ('{"subgroup_size": NaN}', "subgroup_size", "nan", "float"),
    ({"workgroup": ["a\nb" * 50]}, "workgroup", "str"),
]


@pytest.mark.parametrize("spec, words", [(case[0], case[1:]) for case in REFUSED], ids=range(len(REFUSED)))
def test_refused_in_one_line(spec, words):
    with pytest.raises(TuningError) as e:
        Tuning.parse(spec)
    check_one_line(str(e.value), words, 300)


def test_files_that_are_broken(file, tmp_path):
    with pytest.raises(TuningError, match=r"tuning\.json.*broken JSON at line 1, column 2"):
        Tuning.parse(file("{"))
    with pytest.raises(TuningError, match=r"tuning\.json.*is empty"):
        Tuning.parse(file(" \n"))
    (tmp_path / "latin.json").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(TuningError, match=r"latin\.json.*UTF-8"):
        Tuning.parse(tmp_path / "latin.json")


def test_an_unknown_spelling():
    with pytest.raises(InputError, match=r"'new'.*current, original"):
        Tuning().to_attribute("new")
    assert issubclass(TuningError, ReduceError)
    assert issubclass(TuningError, ValueError)
