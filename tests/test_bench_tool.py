"""`tools/bench.py`: its goals, its exit codes, and what its parts print. No test looks at how long anything takes."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from one_line import check_one_line

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

import bench as tool
import bench_overhead

from iree_reduce_plugin import bench_cases, cli_bench
from iree_reduce_plugin.bench import ABSENT, WRONG, Benchmark, Contender
from iree_reduce_plugin.bench_cases import Case, Spec

SMALL = (tool.Standard("rows", Spec("4x33xf32"), 0.5), tool.Standard("all", Spec("4x33xf32", axis=None), 0.5))


@pytest.fixture
def quick(monkeypatch):
    """Not a gigabyte."""
    monkeypatch.setattr(cli_bench, "default_bytes", lambda: 1 << 20)


def test_the_standard_set():
    assert [one.spec.shape for one in tool.STANDARD].count("4096x4096xf32") == 4 and len(tool.STANDARD) == 11
    assert all(0 < one.goal < 1 and not one.spec.problem.is_empty for one in tool.STANDARD)


@pytest.mark.parametrize(
    ("ours", "numpy", "reading", "met"),
    [
        (1.0, 2.0, 0.2, "yes"),
        (1.0, 1.5, 0.2, "no"),
        (1.0, 1.5, 0.88, "yes, by reading"),
        (1.0, 1.5, 0.879, "no"),
        (None, 1.5, 0.2, "WRONG"),
        (1.0, None, 0.2, "no"),
    ],
)
def test_goals(ours, numpy, reading, met):
    """A part of NumPy's time, or nearly all that can be read; a wrong result meets none."""
    contenders = [
        Contender("subgroup", None, seconds=[ours]) if ours else Contender("subgroup", None, WRONG, "why"),
        Contender("numpy", None, seconds=[numpy]) if numpy else Contender("numpy", None, ABSENT, "why"),
    ]
    case = Case(SMALL[0].spec, 528, contenders, [Contender("read x1 add", None, seconds=[reading])])
    lines = tool.goals(Benchmark((case,), 1, "cpu", None), SMALL[:1]).splitlines()
    assert re.split("  +", lines[1])[:3] == ["rows", "sum 4x33xf32 axis -1", "0.50"] and lines[1].endswith(f"  {met}")
    assert lines[-1] == f"{int(met.startswith('yes'))} of 1 goals met"


def test_measured_whatever_the_goals(quick, capsys, tmp_path):
    files = {name: tmp_path / f"a.{name}" for name in ("csv", "json")}
    assert tool.main(["--rounds", "2", *(word for name, path in files.items() for word in (f"--{name}", str(path)))], SMALL) == 0
    out, err = capsys.readouterr()
    assert err == "" and out.count("sum 4x33xf32 axis all") == 2 and re.search(r"\n\d of 2 goals met\n$", out)
    assert all(path.stat().st_size for path in files.values())


def test_a_wrong_result_fails(quick, monkeypatch, capsys):
    build = bench_cases.build_plan
    monkeypatch.setattr(bench_cases, "build_plan", lambda *given: lambda x: -build(*given)(x))
    assert tool.main(["--rounds", "1"], SMALL[:1]) == 1
    assert capsys.readouterr().out.count(WRONG) == 3  # ours, IREE's, and the goal's line


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--csv", "no/a.csv"], ["'no/a.csv'", "no directory"]),
        (["--device", "tpu"], ["device 'tpu'"]),
        (["--target", "gfx900"], ["'gfx900'"]),
        (["--emulate"], ["--emulate", "--target gfx942"]),
    ],
)
def test_refused_in_one_line(arguments, words, capsys, no_compiler):
    assert tool.main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    check_one_line(err.strip(), ["error: ", *words], 300)


def test_figures(capsys):
    assert tool.main(["--target", "gfx942"], (tool.Standard("rows", Spec("4x4096xf32"), 0.5),)) == 0
    assert re.search(r"^sum 4x4096xf32 axis -1 +subgroup +1 ", capsys.readouterr().out, re.M)


def test_overhead(monkeypatch, capsys):
    monkeypatch.setattr(bench_overhead, "SHAPES", ((16,),))
    assert tool.main(["--overhead", "--rounds", "1"]) == 0
    out = capsys.readouterr().out
    names = (
        "numpy",
        "reduce",
        "plan",
        "kernel only",
        "import numpy, iree.runtime",
        "first call, kernel in the cache",
        "first call, cache empty",
    )
    for name in names:
        assert re.search(rf"{name} +[\d.]+ [um]s +[\d.]+ [um]s$", out, re.M), out


def test_the_emulator_is_missing(monkeypatch, capsys):
    monkeypatch.delenv("IREE_REDUCE_TINYGRAD", raising=False)
    assert tool.main(["--target", "gfx942", "--emulate"]) == 2
    check_one_line(capsys.readouterr().err.strip(), ["error: ", "tinygrad", "IREE_REDUCE_TINYGRAD"], 300)


@pytest.mark.skipif("IREE_REDUCE_TINYGRAD" not in os.environ, reason="IREE_REDUCE_TINYGRAD does not name a checkout of tinygrad")
def test_executed_instructions(monkeypatch, capsys):
    import bench_emulated

    assert bench_emulated.emulated("gfx942", (Spec("256xf32"), Spec("16x1024xf32", axis=0))) == 0
    out = capsys.readouterr().out
    assert out.count("  right  ") == 5 and "\n16x1024xf32, iree: " in out
    emulate = bench_emulated.emulate
    monkeypatch.setattr(bench_emulated, "emulate", lambda job, x: emulate(job, x + x))
    assert bench_emulated.emulated("gfx942", (Spec("256xf32"),)) == 1
