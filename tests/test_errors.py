"""Wrong tunings and inputs: one clear line each that names the value, the limit and the remedy; exit 2; nothing compiled."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time

import numpy as np
import pytest
from seeds import SEED_1, SEED_2

from iree_reduce_plugin import InputError, TuningError, cli, reduce, targets

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
A, B = {key: value for key, value in SEED_1.items() if key != "subgroup_size"}, SEED_2


def tuned(base: dict, *more: str, target: str = "gfx942", **changes: object) -> list[str]:
    fields = {key: value for key, value in {**base, **changes}.items() if value is not None}
    shape = "4096xf32" if base is A else "4x4096xf32"
    return ["compile", "--shape", shape, "--target", target, "--tuning", json.dumps(fields), *more]


# name: (arguments, words of the line in their order)
TUNINGS = {
    "8 subgroups in 256 threads": (tuned(A, subgroup_basis=[[8], [0]]), ["workgroup_size", "256", "8", "512"]),
    "2 subgroups in 256 threads": (tuned(A, subgroup_basis=[[2], [0]]), ["workgroup_size", "256", "2", "128"]),
    "mapping index out of range": (tuned(B, lane_basis=[[4, 16], [0, 2]]), ["lane_basis", "index 2", "out of range", "1"]),
    "mapping index doubled": (tuned(B, lane_basis=[[4, 16], [1, 1]]), ["lane_basis", "index 1", "doubled", "once"]),
    "48 lanes": (tuned(A, lane_basis=[[48], [0]]), ["lane_basis", "48", "power of two", "use 32 or 64"]),
    "128 lanes": (tuned(A, lane_basis=[[128], [0]], workgroup_size=None), ["subgroup_size 128", "gfx942", "64"]),
    "a tile that is no product": (tuned(A, reduction=[1000]), ["reduction 1000", "4 subgroups x 64 lanes = 256", "use 768 or 1024"]),
    "a tile that conflicts with thread": (tuned(A, thread=[3]), ["reduction 1024", "thread [3]", "768", "leave thread out"]),
    "2048 threads": (tuned(A, reduction=[2048], subgroup_basis=[[32], [0]], workgroup_size=None), ["workgroup_size 2048", "1024", "16"]),
    "a misspelt key": (tuned(A, worgroup=[0]), ["worgroup", "did you mean workgroup?"]),
    "a key of another pipeline": (tuned(A, mma_kind="MFMA_F32"), ["mma_kind", "matrix", "leave it out"]),
    "subgroups of 32 where they are absent": (
        tuned(A, lane_basis=[[32], [0]], workgroup_size=None),
        ["subgroup_size 32", "gfx942", "use 64"],
    ),
    "both reduction tiles": (tuned(A, partial_reduction=[1024]), ["partial_reduction [1024]", "reduction [1024]", "only one"]),
    "a negative entry": (tuned(A, reduction=[-256]), ["reduction", "-256", "at least 0"]),
    "a list too long": (tuned(A, workgroup=[4, 0, 0]), ["workgroup", "3 entries", "1 loop"]),
    "a workgroup along y": (tuned(A, workgroup_size=[64, 4, 1]), ["workgroup_size [64, 4, 1]", "write [256, 1, 1]"]),
    "a tile on the reduced loop": (tuned(A, workgroup=[4]), ["workgroup [4]", "reduced loop", "set it to 0"]),
    "a row tile that is no product": (tuned(B, workgroup=[6, 0]), ["workgroup [6, 0]", "4 row lanes", "use 4 or 8"]),
    "too many accumulators": (tuned(A, reduction=[65536]), ["thread [256]", "256", "above 256", "fewer elements"]),
    "broken JSON": ([*tuned(A)[:-1], '{"reduction": [1024'], ["broken JSON", "line 1, column"]),
    "a broken attribute": ([*tuned(A)[:-1], "#iree_gpu.lowering_config<{reduction = [1024"], ["pasted attribute", "line 1", "expected"]),
    "a missing tuning file": ([*tuned(A)[:-1], "nowhere.json"], ["tuning file 'nowhere.json'", "does not exist", "JSON"]),
    "iree where it is wrong": (
        tuned(B, "--strategy", "iree", lane_basis=[[64, 1], [0, 1]], workgroup=[64, 0]),
        ["lane_basis", "wrong results", "at least 4 lanes", "strategy 'subgroup'"],
    ),
    "lanes of K that are no neighbours": (
        tuned(B, target="gfx1100", lane_basis=[[16, 4], [1, 0]], subgroup_basis=[[1, 4], [0, 1]]),
        ["lane_basis", "subgroups of 64", "gfx1100", "neighbours", "subgroups of 32"],
    ),
    "a tuning for strategy default": (tuned(A, "--strategy", "default"), ["strategy 'default'", "leave the tuning out"]),
}

RUN = ["run", "--shape", "4x4096xf32"]
COMPILE = ["compile", "--shape", "4x4096xf32"]
INPUTS = {
    "an unknown target": ([*COMPILE, "--target", "gfx900"], ["'gfx900'", "did you mean gfx", "cpu, gfx90a, gfx942"]),
    "an unknown op": ([*RUN, "--op", "median"], ["op 'median'", "sum, prod, max, min"]),
    "an unknown device": ([*RUN, "--device", "tpu"], ["device 'tpu'", "hip, cuda, vulkan, cpu"]),
    "an unknown strategy": ([*COMPILE, "--strategy", "magic"], ["strategy 'magic'", "subgroup, iree, default"]),
    "strategy iree on the cpu": ([*COMPILE, "--strategy", "iree"], ["strategy 'iree'", "cpu", "'subgroup' or 'default'"]),
    "an unknown type": (["run", "--shape", "4x4096xf33"], ["'f33'", "f32, f64"]),
    "a type not supported": (["run", "--shape", "4x4096xi4"], ["'i4'", "not supported", "f32, f64"]),
    "no bits": ([*RUN, "--op", "bitwise_or"], ["op bitwise_or", "f32", "integer or bool"]),
    "an initial of a mean": ([*RUN, "--op", "mean", "--initial", "1"], ["initial 1", "numpy.mean has none", "leave it out"]),
    "a type of a count": ([*RUN, "--op", "count_nonzero", "--dtype", "i4"], ["dtype 'i4'", "numpy.count_nonzero has none"]),
    "a mean in integers": (["run", "--shape", "4x4xi32", "--op", "mean", "--dtype", "i4"], ["dtype i32", "mean", "use a float"]),
    "a sum in bool": (["run", "--shape", "4x4xi32", "--dtype", "bool"], ["dtype bool", "any or all"]),
    "elements rounded to 8 bits": ([*RUN, "--dtype", "f8E5M2"], ["dtype f8E5M2", "not supported yet", "cast the array first"]),
    "a logarithm of f64 on Vulkan": (
        ["compile", "--shape", "4x4xf64", "--op", "log_sum", "--target", "vulkan8"],
        ["log_sum of 4x4xf64", "log of f64 is not supported on vulkan8", "compute it in f32"],
    ),
    "a seed below 0": ([*RUN, "--seed=-3"], ["--seed", "'-3' is not a seed", "at least 0"]),
    "no type": (["run", "--shape", "4x4096"], ["shape '4x4096'", "4x4096xf32"]),
    "an axis out of range": ([*RUN, "--axis", "2"], ["axis 2 is out of bounds", "dimension 2"]),
    "an axis that is none": ([*RUN, "--axis", "first"], ["--axis", "'first'", "0,1"]),
    "an axis twice": ([*RUN, "--axis", "1,-1"], ["duplicate value in 'axis'"]),
    "no identity": (["run", "--shape", "4x0xf32", "--op", "max"], ["zero-size array", "no identity"]),
    "floats as integers": ([*RUN, "--dtype", "i4"], ["dtype i32", "cast the array first"]),
    "an initial that is no number": ([*RUN, "--initial", "one"], ["--initial", "'one'"]),
    "an initial that does not fit": (["run", "--shape", "4x4xi32", "--dtype", "i4", "--initial", "3000000000"], ["initial", "i32"]),
    "too large": (["verify", "--shape", "9999999999x9999999999xf32"], ["64 bits"]),
    "a missing input": (["run", "--input", "nowhere.npy"], ["'nowhere.npy'", "does not exist"]),
    "no command": ([], ["compile, run, verify, explain, devices or bench"]),
    "an unknown option": ([*RUN, "--fast"], ["--fast", "--help"]),
    "an unknown form": ([*COMPILE, "--emit", "ptx"], ["'ptx'", "vmfb", "hsaco"]),
    "code objects to a terminal": ([*COMPILE, "--target", "gfx942", "--emit", "hsaco"], ["hsaco", "-o FILE"]),
    "code objects of the cpu": ([*COMPILE, "--emit", "hsaco", "-o", "x.hsaco"], ["emit hsaco", "cpu", "gfx"]),
    "a schedule of strategy default": (
        [*COMPILE, "--strategy", "default", "--emit", "schedule"],
        ["emit schedule", "'default'", "none", "dispatch"],
    ),
    "no time": ([*COMPILE, "--timeout", "0"], ["--timeout", "'0'", "above 0"]),
    "an output in no directory": ([*COMPILE, "-o", "nowhere/x.vmfb"], ["'nowhere/x.vmfb'", "no directory 'nowhere'"]),
    "an output that is a directory": ([*COMPILE, "-o", "."], ["'.'", "is a directory"]),
    "a report in no directory": ([*COMPILE, "--report", "nowhere/x.json"], ["'nowhere/x.json'", "no directory"]),
    "one file for two outputs": ([*COMPILE, "-o", "x", "--report", "./x"], ["two outputs", "'./x'"]),
    "the module of an empty array": (["compile", "--shape", "0x4xf32", "-o", "x.vmfb"], ["empty", "--report"]),
}
CASES = {**TUNINGS, **INPUTS}


def refused(arguments, capsys) -> str:
    """The one line that the command line refuses with."""
    start = time.perf_counter()
    code = cli.main(arguments)
    took = time.perf_counter() - start
    out, err = capsys.readouterr()
    assert (code, out, err.count("\n")) == (2, "", 1) and err.startswith("iree-reduce-plugin: error: "), (code, out, err)
    assert took < 1
    return err


def assert_words(line: str, words: list[str]) -> None:
    rest = line
    for word in words:
        assert word in rest, (word, line)
        rest = rest[rest.index(word) + len(word) :]


@pytest.mark.parametrize("name", CASES)
def test_refused_in_one_line(name, capsys, no_compiler, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments, words = CASES[name]
    assert_words(refused(arguments, capsys), words)
    assert list(tmp_path.iterdir()) == []


def test_there_are_twenty_five():
    assert len(TUNINGS) >= 24 and len(CASES) >= 50


@pytest.mark.parametrize("name", ["8 subgroups in 256 threads", "an unknown op", "a missing tuning file"])
def test_refused_as_a_program(name, tmp_path):
    arguments, words = CASES[name]
    environment = {**os.environ, "PYTHONPATH": ROOT}
    done = subprocess.run(
        [sys.executable, "-m", "iree_reduce_plugin", *arguments], capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert_words(done.stderr, words)


def test_subgroups_of_64_on_a_target_without_them(capsys, no_compiler, monkeypatch):
    """All of today's targets have them, so one is made that has not."""
    gfx1100 = targets.TARGETS["gfx1100"]
    monkeypatch.setitem(targets.TARGETS, "gfx1100", dataclasses.replace(gfx1100, subgroup_sizes=(32,)))
    assert_words(refused(tuned(A, target="gfx1100"), capsys), ["subgroup_size 64", "gfx1100", "use 32", "lane_basis"])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ["is not an array", "No data left"]),
        (b"hello", ["is not an array"]),
        (b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order'", ["is not an array"]),
    ],
)
def test_files_that_are_no_arrays(content, words, tmp_path, capsys, no_compiler):
    path = tmp_path / "x.npy"
    path.write_bytes(content)
    assert_words(refused(["run", "--input", str(path)], capsys), [str(path), *words])


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.array([1, "x"], object), ["x.npy", "allow_pickle"]),
        (np.array(["a", "b"]), ["type 'str", "not supported", "f32"]),
        (np.array([1j]), ["'complex128'", "not supported", "f32"]),
        (np.array([1], "M8[s]"), ["'datetime64[s]'", "not supported", "f32"]),
        (np.array([1], np.longdouble), ["not supported", "f32"]),
    ],
)
def test_arrays_that_are_refused(array, words, tmp_path, capsys, no_compiler):
    path = tmp_path / "x.npy"
    np.save(path, array)
    assert_words(refused(["run", "--input", str(path)], capsys), words)


@pytest.mark.parametrize(
    ("x", "options", "error", "words"),
    [
        (
            np.ones(4),
            {"op": "max", "where": [True] * 4},
            ValueError,
            ["'maximum' does not have an identity", "one has to specify 'initial'"],
        ),
        (np.ones(4), {"op": "argmax", "where": [True] * 4}, TypeError, ["where: numpy.argmax has none"]),
        (np.ones(4), {"where": np.array([1, 0, 1, 1])}, TypeError, ["where: Cannot cast", "compare it"]),
        (np.ones(4), {"where": [True] * 3}, InputError, ["shape (3,)", "the array's (4,)"]),
        (np.ones(4), {"op": ("sum", "ptp"), "where": [True] * 4}, TypeError, ["where: numpy.ptp has none"]),
        (np.ones(4, "?"), {"map": "negative"}, TypeError, ["neg: bools have no arithmetic", "cast them"]),
        (np.ones(4), {"map": "sin", "device": "cpu"}, InputError, ["sin of f64 is not supported on cpu", "compute it in f32"]),
        ([None], {}, InputError, ["'object'", "not supported", "f32"]),
        (["a"], {}, InputError, ["'str", "not supported"]),
        ([1j], {}, InputError, ["'complex128'"]),
        (np.ones(4), {"op": "bitwise_and"}, TypeError, ["op bitwise_and", "f64"]),
        (np.ones(4), {"op": "mean", "initial": 0}, TypeError, ["initial 0", "numpy.mean has none"]),
        (np.ones(4), {"op": "any", "dtype": "f4"}, TypeError, ["dtype 'f4'", "numpy.any has none"]),
        (np.ones(4, "u1"), {"op": "max", "initial": 256}, InputError, ["initial 256", "ui8", "0 to 255"]),
        (np.ma.masked_array([1.0], [True]), {}, InputError, ["masked", "filled"]),
        ([[1.0], [1.0, 2.0]], {}, ValueError, ["inhomogeneous"]),
        (np.ones(4), {"op": ["sum"]}, InputError, ["['sum']", "sum, prod"]),
        (np.ones(4), {"dtype": "f3"}, InputError, ["'f3'", "f32, f64"]),
        (np.ones(4), {"dtype": ["f4"]}, InputError, ["f32, f64"]),
        (np.ones(4), {"axis": 1}, np.exceptions.AxisError, ["axis 1 is out of bounds"]),
        (np.ones(4), {"axis": [0]}, TypeError, ["list"]),
        (np.ones(4), {"axis": 0.0}, TypeError, ["float"]),
        (np.ones((4, 4)), {"axis": True}, TypeError, ["integer"]),
        (np.ones((4, 4)), {"axis": (1, 1)}, ValueError, ["duplicate"]),
        (np.ones(4), {"initial": "x"}, InputError, ["initial 'x'"]),
        (np.ones(0), {"op": "max"}, ValueError, ["no identity"]),
        (np.ones(4), {"tuning": 7}, TuningError, ["7", "Tuning, dict"]),
        (np.ones(4), {"tuning": {"reduction": "x"}}, TuningError, ["reduction", "'x'"]),
        (np.ones(4), {"device": "tpu"}, InputError, ["'tpu'", "hip, cuda, vulkan, cpu"]),
        (np.ones(4), {"device": ["cpu"]}, InputError, ["['cpu']"]),
    ],
)
def test_refused_by_reduce(x, options, error, words, no_compiler):
    with pytest.raises(error) as caught:
        reduce(x, **options)
    assert_words(str(caught.value), words)
    assert "\n" not in str(caught.value)
