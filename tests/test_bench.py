"""`bench`: who is measured when, what is said of it, and that a wrong result is never timed. No test looks at how long anything takes."""

from __future__ import annotations

import csv
import dataclasses
import importlib.util
import io
import json
import re

import numpy as np
import pytest
from one_line import check_one_line

from iree_reduce_plugin import bench_cases, bench_figures, bench_plot, cli, cli_bench
from iree_reduce_plugin.bench import ABSENT, RIGHT, WRONG, Benchmark, Contender, measure
from iree_reduce_plugin.bench_cases import Case, Setting, Spec
from iree_reduce_plugin.bench_numpy import numpy_call
from iree_reduce_plugin.compare import numpys_own
from iree_reduce_plugin.devices import find_device
from iree_reduce_plugin.ops import OPS
from iree_reduce_plugin.plan import make_job
from iree_reduce_plugin.problem import Problem
from iree_reduce_plugin.reference import as_matrix

QUICK = ["bench", "--rounds", "2", "--read-size", "1M"]


@pytest.fixture(autouse=True)
def in_an_empty_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


class Fake:
    """Contenders that write down when they are called, and the clock by which each call takes `seconds`."""

    def __init__(self):
        self.now, self.calls = 0.0, []

    def clock(self):
        return self.now

    def contender(self, name, seconds=1e-3, **options):
        def call():
            self.calls.append(name)
            self.now += seconds

        return Contender(name, call, **options)


def test_rounds_are_interleaved():
    """Each contender once a round, after a call that doesn't count; another one begins in the next round."""
    fake = Fake()
    groups = [[fake.contender(name) for name in names] for names in ("abc", "xy")]
    groups[0].append(Contender("never", None, ABSENT))
    measure(groups, 3, fake.clock)
    rounds = ["abcxy", "bcayx", "cabxy"]
    assert "".join(fake.calls) == "abcxy" + "".join(name * 2 for each in rounds for name in each)
    for contender in (*groups[0][:3], *groups[1]):
        assert contender.seconds == pytest.approx([1e-3] * 3)
    assert groups[0][3].seconds == [] and groups[0][3].minimum is None


def test_short_calls_are_timed_together():
    fake = Fake()
    short, many = fake.contender("s", 1e-5), fake.contender("m", 1e-3, times=50)
    measure([[short, many]], 2, fake.clock)
    assert short.seconds == pytest.approx([1e-5] * 2) and many.seconds == pytest.approx([2e-5] * 2)
    calls = "".join(fake.calls)
    assert calls == "s" * 63 + "m" + ("s" * 33 + "mm") + ("mm" + "s" * 33)


def test_minimum_and_median():
    contender = Contender("a", None, seconds=[3.0, 1.0, 8.0])
    assert (contender.minimum, contender.median) == (1.0, 3.0)


def test_table_csv_and_json_agree(capsys, tmp_path):
    arguments = ["--shape", "4x33xf32", "--shape", "64xf32", "--csv", "a.csv", "--json", "a.json"]
    assert cli.main([*QUICK, *arguments]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    data = json.loads((tmp_path / "a.json").read_text())
    cells = list(csv.DictReader((tmp_path / "a.csv").read_text().splitlines()))
    assert len(cells) == len(data["rows"]) == sum(line.startswith(("sum", " ")) for line in out.splitlines()[1:])
    for row, cell, line in zip(data["rows"], cells, out.splitlines()[1:], strict=False):
        assert cell == {key: "" if value is None else str(value) for key, value in row.items()}
        shown = line.split()
        assert row["contender"] in line and (row["op"], row["axis"]) == ("sum", "-1")
        if row["state"] == RIGHT:
            assert shown[-2:] == [f"{row['ratio']:.2f}", f"{row['fraction']:.2f}"] and shown[-3] == f"{row['gb_s']:.1f}"
            assert row["gb_s"] == pytest.approx(row["bytes"] / row["min_s"] / 1e9) and row["min_s"] <= row["median_s"]
    numpys = {row["shape"]: row["min_s"] for row in data["rows"] if row["contender"] == "numpy"}
    for row in data["rows"]:
        assert row["ratio"] is None or row["ratio"] == pytest.approx(row["min_s"] / numpys[row["shape"]])
    assert data["schema"] == 1 and data["rounds"] == 2 and data["bandwidth"]["bytes"] == 1 << 20
    names = [row["contender"] for row in data["rows"] if row["shape"] == "64xf32"]
    assert names[:4] == ["numpy", "subgroup", "iree", "default"] and names[4] == "read x1"
    assert "[1] iree: strategy 'iree' is for ROCm targets" in out and "[2]" not in out and data["rows"][2]["state"] == ABSENT


@pytest.mark.parametrize("option", ["--csv", "--json"])
def test_standard_output_is_for_one_reader(capsys, option):
    assert cli.main([*QUICK, "--shape", "64xf32", "--rivals", "", option, "-"]) == 0
    out = capsys.readouterr().out
    found = json.loads(out)["rows"] if option == "--json" else list(csv.DictReader(io.StringIO(out)))
    assert [row["contender"] for row in found][:2] == ["subgroup", "read x1"] and not found[0]["ratio"]


@pytest.mark.parametrize("wrong", ["subgroup", "default"])
def test_a_wrong_result_is_not_timed(monkeypatch, capsys, tmp_path, wrong):
    build = bench_cases.build_plan

    def build_plan(job, *arguments):
        plan = build(job, *arguments)
        return (lambda x: plan(x) + np.float32(1)) if job.strategy == wrong else plan

    monkeypatch.setattr(bench_cases, "build_plan", build_plan)
    assert cli.main([*QUICK, "--shape", "4x33xf32", "--json", "a.json"]) == 1
    out = capsys.readouterr().out
    (line,) = (line for line in out.splitlines() if WRONG in line)
    assert re.search(rf"{wrong} \[\d\] +WRONG( +-){{4}}$", line)
    assert re.search(rf"^\[\d\] {wrong}: largest difference from NumPy 1, tolerance ", out, re.M)
    states = {row["contender"]: row for row in json.loads((tmp_path / "a.json").read_text())["rows"]}
    assert states[wrong]["state"] == WRONG and states[wrong]["min_s"] is None and states["numpy"]["state"] == RIGHT


def test_a_result_that_is_only_near_is_wrong_of_ours(monkeypatch):
    """One bit off is within every tolerance, but not the reference."""
    build = bench_cases.build_plan
    monkeypatch.setattr(bench_cases, "build_plan", lambda *given: lambda x: np.nextafter(build(*given)(x), np.float32(np.inf)))
    ours, default = Setting(find_device("cpu"), ("default",)).case(Spec("4x33xf32")).contenders
    assert ours.state == WRONG and ours.call is None and "1 units in the last place" in ours.reason
    assert default.state == RIGHT


def test_a_result_that_is_near_is_right_of_iree(monkeypatch):
    """Its strategy `iree` has the tuning, but not the order. As on a ROCm device, which need not be here."""
    monkeypatch.setattr(bench_cases, "strategy_job", lambda name, *given: make_job(*given))
    build = bench_cases.build_plan
    monkeypatch.setattr(bench_cases, "build_plan", lambda *given: lambda x: np.nextafter(build(*given)(x), np.float32(np.inf)))
    _, iree = Setting(find_device("cpu"), ("iree",)).case(Spec("4x33xf32")).contenders
    assert (iree.name, iree.state) == ("iree", RIGHT)


def test_what_numpy_does_not_have_is_absent(capsys):
    assert cli.main([*QUICK, "--shape", "3x4x5xf32", "--op", "argmax", "--axis", "1,2", "--rivals", "numpy"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"numpy \[1\]( +-){5}\n", out) and "\n[1] numpy: NumPy: " in out


def test_an_op_that_numpy_does_not_have(monkeypatch):
    monkeypatch.setitem(OPS, "max", dataclasses.replace(OPS["max"], numpy="numpy.maximum of the reverse"))
    assert numpy_call("max", 0, None) is None and numpy_call("sum,max", 0, None) is None
    numpys, ours = Setting(find_device("cpu"), ("numpy",)).case(Spec("4x33xf32", "max")).contenders
    assert (numpys.state, numpys.reason, ours.state) == (ABSENT, "NumPy has no call for op max", RIGHT)


def test_several_ops_and_other_types(capsys):
    assert cli.main([*QUICK, "--shape", "8x64xi16", "--op", "min,sum", "--axis", "all", "--rivals", "numpy"]) == 0
    assert cli.main([*QUICK, "--shape", "8x64xbf16", "--dtype", "f4", "--rivals", "numpy"]) == 0
    assert "WRONG" not in capsys.readouterr().out


@pytest.mark.parametrize("op", OPS)
def test_the_numpy_call_is_the_same_reduction(op):
    if numpy_call(op, 0, None) is None:
        pytest.skip(f"NumPy has none: {OPS[op].numpy}")
    x = np.arange(1, 61, dtype="i4" if op.startswith("bitwise") else "f4").reshape(3, 4, 5)
    for axis in (0, -1) if op.startswith("arg") or op == "logsumexp" else (0, -1, (0, 2), None):
        problem = Problem.of(x.shape, x.dtype, op, axis)
        with np.errstate(over="ignore"):  # of a product
            expected, found = numpys_own(as_matrix(x, problem), problem).reshape(problem.kept_shape), numpy_call(op, axis, None)(x)
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_several_numpy_calls_and_types():
    total, highest = numpy_call("sum,max", None, "f8")(np.ones((2, 3), "f4"))
    assert (total, highest) == (6.0, 1.0) and total.dtype == highest.dtype == "f8"


def test_arrays_lie_where_no_contender_copies_them():
    setting = Setting(find_device("cpu"), ("numpy",))
    first, second = (setting._array(Spec("3x7xf16"), Spec("3x7xf16").problem) for _ in range(2))
    assert first is second and first.ctypes.data % 64 == 0 and first.flags.behaved and first.flags.c_contiguous
    assert setting._array(Spec("3x7xf16", "log_sum"), Spec("3x7xf16", "log_sum").problem) is not first


def test_sizes():
    options = cli.parser().parse_args(["bench", "--shape", "9x1024xf32", "--sizes", "4K:100K"])
    assert [spec.shape for spec in cli_bench._specs(options)] == ["1x1024xf32", "4x1024xf32", "16x1024xf32"]
    options = cli.parser().parse_args(["bench", "--shape", "9xf16", "--sizes", "4k", "--shape", "1xf16"])
    assert [spec.shape for spec in cli_bench._specs(options)] == ["2048xf16"]


def test_progress_is_for_those_who_look(monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert cli.main([*QUICK, "--shape", "64xf32", "--rivals", ""]) == 0
    err = capsys.readouterr().err
    assert "compiling and checking 1 of 1: sum of 64xf32" in err and "round 2 of 2" in err and err.endswith("\033[K")


def test_figures_of_an_amd_target(capsys, tmp_path):
    arguments = ["bench", "--shape", "4x4096xf32", "--shape", "16x4096xf32", "--target", "gfx942", "--csv", "a.csv", "--json", "a.json"]
    assert cli.main([*arguments, "--axis", "0", "--rivals", "iree,numpy"]) == 0
    out = capsys.readouterr().out
    found = json.loads((tmp_path / "a.json").read_text())
    assert [row["contender"] for row in found] == ["subgroup", "iree"] * 2 and "GB/s" not in out
    assert found[0]["vgprs"] > 0 and found[0]["kernels"] == 1 and found[0]["loads"].endswith("b128") and found[0]["reason"] == ""
    assert found[3]["vgprs"] is None and "strategy 'iree'" in found[3]["reason"] and re.search(r"iree \[\d\]( +-){10}\n", out)
    assert [cell["vgprs"] for cell in csv.DictReader((tmp_path / "a.csv").read_text().splitlines())] == [
        str(row["vgprs"] or "") for row in found
    ]


def test_figures_of_several_kernels():
    """As IREE makes them: the largest of what a workgroup holds, all of what is in the code."""
    common = {"workgroup_size": [64, 1, 1], "sgprs": 8, "spills": 0, "shared_memory_bytes": 0}
    first = {"workgroup_count": [2, 1, 1], "vgprs": 9, "barriers": {"in_loop": 1, "outside": 2}, "wide_loads": {"b32": 1, "b128": 0}}
    second = {"workgroup_count": [1, 1, None], "vgprs": 4, "barriers": {"in_loop": 0, "outside": 1}, "wide_loads": {"b32": 2, "b128": 3}}
    found = bench_figures._summed([{**common, **first}, {**common, **second}])
    assert (found["kernels"], found["vgprs"], found["barriers"], found["barriers_in_loop"]) == (2, 9, 4, 1)
    assert (found["workgroups"], found["threads"], found["loads"]) == ("2x1x1+1x1x?", "64+64", "3 b32+3 b128")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["--shape"]),
        (["--shape", "4xf33"], ["f33"]),
        (["--shape", "4x1xf32"], ["shape 4x1xf32, axis -1", "nothing to reduce", "give e.g."]),
        (["--shape", "64xf32", "--shape", "0x4xf32"], ["0x4xf32", "nothing to reduce"]),
        (["--shape", "64xf32", "--op", "median"], ["op 'median'"]),
        (["--shape", "64xf32", "--axis", "1"], ["axis 1 is out of bounds"]),
        (["--shape", "64xf32", "--rivals", "numpy,torch"], ["rivals", "'torch'", "numpy,iree,default"]),
        (["--shape", "64xf32", "--rounds", "0"], ["--rounds", "'0'", "above 0"]),
        (["--shape", "64xf32", "--read-size", "1X"], ["--read-size", "'1X'", "256M"]),
        (["--shape", "64xf32", "--sizes", "1M:1K"], ["--sizes", "'1M:1K'", "smaller one first"]),
        (["--shape", "4x4096xf32", "--sizes", "4K:1M"], ["sizes: 4096 bytes", "16384", "begin at"]),
        (["--shape", "64xf32", "--device", "tpu"], ["device 'tpu'"]),
        (["--shape", "64xf32", "--target", "gfx900"], ["'gfx900'"]),
        (["--shape", "64xf32", "--target", "cpu"], ["target cpu", "AMD", "leave --target out"]),
        (["--shape", "64xf32", "--target", "gfx942", "--device", "cpu"], ["--device", "not allowed with", "--target"]),
        (["--shape", "64xf32", "--target", "gfx942", "--plot", "a.png"], ["--plot", "nothing is timed", "--csv"]),
        (["--shape", "64xf32", "--csv", "no/a.csv"], ["'no/a.csv'", "no directory"]),
        (["--shape", "64xf32", "--csv", "a", "--json", "a"], ["two outputs"]),
        (["--shape", "64xf32", "--plot", "-"], ["--plot -", "sums.png"]),
        (["--shape", "64xf32", "--shape", "4x64xf32", "--tuning", '{"reduction": [64]}'], ["reduction", "1 entry", "2 loops"]),
    ],
)
def test_refused_in_one_line(arguments, words, capsys, no_compiler, tmp_path):
    assert cli.main(["bench", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == "" and list(tmp_path.iterdir()) == []
    check_one_line(err.strip(), ["iree-reduce-plugin: error: ", *words], 400)


def test_without_matplotlib(monkeypatch, capsys, no_compiler):
    monkeypatch.setattr(bench_plot.importlib.util, "find_spec", lambda name: None)
    assert cli.main([*QUICK, "--shape", "64xf32", "--plot", "a.png"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    check_one_line(err.strip(), ["--plot", "Matplotlib", "pip install 'iree_reduce_plugin[plot]'"], 200)


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="Matplotlib is not installed: pip install matplotlib")
def test_the_picture(capsys, tmp_path):
    assert cli.main([*QUICK, "--shape", "1xf32", "--sizes", "256", "--rivals", "numpy", "--plot", "a.png"]) == 0
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert bench_plot._size(4096) == "4 KiB" and bench_plot._size(3 << 30) == "3 GiB"


def test_the_lines_of_the_picture():
    cases = [
        Case(Spec(shape, axis=axis), size, [Contender("numpy", None, seconds=[1.0]), Contender("iree", None, ABSENT, "why")])
        for shape, size, axis in (("8xf32", 32, -1), ("4xf32", 16, -1), ("8xf32", 32, None))
    ]
    lines = bench_plot._lines(Benchmark(tuple(cases), 1, "cpu", None))
    assert {key: [row.bytes for row in line] for key, line in lines.items()} == {
        ("sum axis -1", "numpy"): [16, 32],
        ("sum axis all", "numpy"): [32],
    }
