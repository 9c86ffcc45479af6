"""The command line: what each command prints and writes, and its exit codes. What it refuses is in test_errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings

import ml_dtypes
import numpy as np
import pytest

from iree_reduce_plugin import CompileError, __version__, cli, cli_commands, compile
from iree_reduce_plugin.cli_options import joined
from iree_reduce_plugin.compare import Comparison, same_bits
from iree_reduce_plugin.devices import list_devices

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SEED = '{"workgroup": [4, 0], "reduction": [0, 256], "lane_basis": [[4, 16], [0, 1]], "subgroup_basis": [[1, 4], [0, 1]]}'
GFX = ["compile", "--shape", "4x4096xf32", "--target", "gfx942", "--tuning", SEED]
FIGURES = {
    "kernel", "workgroup_count", "workgroup_size", "subgroup_size", "bindings", "shared_memory_bytes", "vgprs", "sgprs", "spills",
    "barriers", "lane_ops", "wide_loads", "loads_in_flight",
}  # fmt: skip


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch, tmp_path):
    monkeypatch.setenv("IREE_REDUCE_DEVICE", "cpu")
    monkeypatch.chdir(tmp_path)


def fine(capsys, *arguments: str) -> str:
    """What the command prints."""
    code = cli.main(arguments)
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    return out


def failing(capsys, code: int, *arguments: str) -> str:
    assert cli.main(arguments) == code
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and err.startswith("iree-reduce-plugin: error: ")
    return err


def program(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": ROOT}
    return subprocess.run(
        [sys.executable, "-m", "iree_reduce_plugin", *arguments], capture_output=True, text=True, env=environment, timeout=60, **options
    )


def test_version(capsys):
    out = fine(capsys, "--version")
    assert out.startswith(f"iree-reduce-plugin {__version__} (IREE compiler 3.") and ", runtime 3." in out


@pytest.mark.parametrize("command", [(), ("compile",), ("run",), ("verify",), ("devices",), ("bench",)])
def test_help_teaches(capsys, command):
    out = fine(capsys, *command, "--help")
    assert "examples:\n  iree-reduce-plugin" in out and all(len(line) <= 140 for line in out.splitlines())


@pytest.mark.parametrize("command", ["run", "verify"])
def test_the_examples_of_the_help_work(capsys, command, tmp_path):
    """Those that are on one line; the files they name are made first."""
    np.save(tmp_path / "x.npy", np.ones((4, 33), "f4"))
    (tmp_path / "test_data").mkdir()
    (tmp_path / "test_data" / "reduce_4x4096.tuning.json").write_text(SEED)
    lines = [line.split() for line in fine(capsys, command, "--help").splitlines() if line.startswith("  iree-reduce-plugin ")]
    examples = [words[1:] for words in lines if words[-1] != "\\" and words[-1] != "--tuning"]
    assert len(examples) >= 2
    for example in examples:
        assert fine(capsys, *example)


def test_compile_to_a_file_and_a_report(capsys, tmp_path):
    assert fine(capsys, *GFX, "-o", "sum.vmfb", "--report", "report.json") == ""
    assert (tmp_path / "sum.vmfb").read_bytes() == compile("4x4096xf32", None, SEED, target="gfx942").vmfb
    report = json.loads((tmp_path / "report.json").read_text())
    assert set(report) == {"schema", "target", "strategy", "tuning", "tuning_source", "exact", "dispatches"}
    assert (report["schema"], report["target"], report["strategy"], report["tuning_source"]) == (1, "gfx942", "subgroup", "given")
    (entry,) = report["dispatches"]
    assert set(entry) == FIGURES
    assert (entry["workgroup_count"], entry["workgroup_size"], entry["subgroup_size"]) == ([1, 1, 1], [256, 1, 1], 64)
    assert entry["barriers"] == {"in_loop": 0, "outside": 1} and entry["wide_loads"]["b128"] > 0


def test_compile_is_for_the_cpu_unless_told_otherwise(capsys):
    out = fine(capsys, "compile", "--shape", "4x33xf32", "--report", "-")
    report = json.loads(out)
    assert report["target"] == "cpu" and report["tuning_source"] == "default for cpu"
    assert report["dispatches"][0]["vgprs"] is None


def test_compile_without_an_output_prints_a_summary(capsys, tmp_path):
    out = fine(capsys, *GFX)
    for words in (
        "sum of 4x4096xf32",
        "gfx942",
        "given",
        "256 = 4 subgroups x 16 lanes x 4 elements",
        "threads 256x1x1",
        "shared memory 64",
    ):
        assert words in out
    assert list(tmp_path.iterdir()) == []


def test_dump_directory(capsys, tmp_path):
    fine(capsys, *GFX, "--dump-dir", "new/dump")
    suffixes = {path.suffix for path in (tmp_path / "new/dump").iterdir()}
    assert {".hsaco", ".rocmasm", ".mlir"} <= suffixes


@pytest.mark.parametrize(("form", "words"), [("dispatch", "linalg.generic"), ("schedule", "transform."), ("asm", "s_endpgm")])
def test_text_goes_to_standard_output_or_a_file(capsys, tmp_path, form, words):
    out = fine(capsys, *GFX, "--emit", form)
    assert words in out
    assert fine(capsys, *GFX, "--emit", form, "-o", "text") == ""
    assert (tmp_path / "text").read_text().rstrip("\n") == out.rstrip("\n")


def test_code_objects(capsys, tmp_path):
    assert fine(capsys, *GFX, "--emit", "hsaco", "-o", "sum.hsaco") == ""
    assert (tmp_path / "sum.hsaco").read_bytes().startswith(b"\x7fELF")


def test_an_empty_array_compiles_to_a_note(capsys):
    assert "array is empty" in fine(capsys, "compile", "--shape", "0x4xf32")
    report = json.loads(fine(capsys, "compile", "--shape", "0x4xf32", "--report", "-"))
    assert report["dispatches"] == [] and "NumPy" in report["note"]


@pytest.mark.parametrize("shape", ["4x4096xf32", "3x100xbf16", "17xf16", "5x7x33xf64", "4x1xi64"])
def test_run_says_it_in_one_line(capsys, shape):
    out = fine(capsys, "run", "--shape", shape)
    assert out.count("\n") == 1 and out.startswith("cpu (local-sync): result (")
    assert "largest difference from NumPy" in out and "that rounding allows" in out and "equal to the reference bit for bit" in out


def test_run_of_an_empty_array_says_that_nothing_ran(capsys):
    assert fine(capsys, "run", "--shape", "4x0xf32") == "result (4,) f32: the array is empty, so nothing ran and nothing was checked\n"


def test_run_options(capsys):
    out = fine(capsys, "run", "--shape", "5x7x33xi32", "--axis", "-2,-1", "--keepdims", "--dtype", "i4", "--op", "max", "--initial", "-1")
    assert "result (5, 1, 1) i32, largest difference from NumPy 0 (within the 0 that rounding allows), equal" in out
    assert "result () f64" in fine(capsys, "run", "--shape", "5x33xf32", "--axis", "all", "--dtype", "f8")
    assert "local-task (local-task)" in fine(capsys, "run", "--shape", "5x33xf32", "--device", "local-task", "--tuning", SEED)


def test_run_without_a_tuning_has_no_reference(capsys):
    assert "no reference" in fine(capsys, "run", "--shape", "5x33xf32", "--strategy", "default")


@pytest.mark.parametrize("dtype", ["f4", ">f4", ml_dtypes.bfloat16])
def test_run_reads_and_writes_arrays(capsys, tmp_path, dtype):
    np.save(tmp_path / "x.npy", np.ones((3, 33)).astype(dtype))
    fine(capsys, "run", "--input", "x.npy", "--output", "y", "--op", "max")
    y = np.load(tmp_path / "y")
    assert y.shape == (3,) and (y.view(ml_dtypes.bfloat16) if y.dtype.kind == "V" else y).tolist() == [1, 1, 1]


def test_run_seeds(capsys, tmp_path):
    for seed, name in (("1", "a"), ("1", "b"), ("2", "c")):
        fine(capsys, "run", "--shape", "5x33xf32", "--seed", seed, "--output", name)
    a, b, c = ((tmp_path / name).read_bytes() for name in "abc")
    assert a == b != c


def test_run_ends_with_1_where_the_result_is_wrong(capsys, monkeypatch):
    monkeypatch.setattr(cli_commands, "compare", lambda *_: Comparison(0.5, 0.1, 1.0))
    assert cli.main(["run", "--shape", "5x33xf32"]) == 1
    assert "0.5 (ABOVE the 0.1 that rounding allows), DIFFERENT from the reference" in capsys.readouterr().out


@pytest.mark.skipif(list_devices()[0].device is not None, reason="there is a GPU here")
def test_a_device_that_is_not_usable(capsys, no_compiler):
    assert "'hip' is not usable here" in failing(capsys, 1, "run", "--shape", "4x33xf32", "--device", "hip")


def test_verify(capsys, no_compiler):
    out = fine(capsys, "verify", "--shape", "6x1x1000xf32", "--target", "gfx942", "--tuning", SEED)
    for words in ("(rows=6, K=1000)", "thread [1, 4]", "(given)", "4 steps of 256 elements of K", "232 el", "64 bytes of shared memory"):
        assert words in out
    assert "shared memory" not in fine(capsys, "verify", "--shape", "6x1000xf32")
    assert "nothing is left to reduce" in fine(capsys, "verify", "--shape", "6x1xf32")


def test_devices(capsys):
    lines = fine(capsys, "devices").splitlines()
    assert lines[0].split() == ["NAME", "DRIVER", "TARGET", "SUBGROUP", "STATUS"]
    assert [line.split()[0] for line in lines[1:-1]] == [found.name for found in list_devices()]
    assert all("usable" in line for line in lines[1:-1])
    assert lines[-1].startswith("Where no device is named: ")


@pytest.mark.parametrize(
    ("raised", "code", "words"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (CompileError("IREE failed:\nbadly"), 1, "IREE failed: badly"),
        (OSError(28, "No space left on device"), 1, "No space left"),
        (MemoryError(), 1, "does not fit into memory"),
        (KeyError("lost"), 1, "KeyError: 'lost' (full log: "),
    ],
)
def test_exit_codes(capsys, monkeypatch, raised, code, words):
    def fail(options):
        raise raised

    monkeypatch.setitem(cli_commands.COMMANDS, "devices", fail)
    assert words in failing(capsys, code, "devices")


def test_a_failed_compilation_names_its_log(capsys):
    line = failing(capsys, 1, "compile", "--shape", "1025x1023xf32", "--timeout", "0.001", "--target", "gfx90a")
    assert "0.001 s" in line and line.rstrip().endswith(".log)")


def test_warnings_are_one_line(capsys, monkeypatch):
    def warn(options):
        warnings.warn("this\nand that", RuntimeWarning, stacklevel=1)
        return 0

    monkeypatch.setitem(cli_commands.COMMANDS, "devices", warn)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert cli.main(["devices"]) == 0
    assert capsys.readouterr().err == "iree-reduce-plugin: warning: this and that\n"


def test_a_closed_pipe_is_quiet():
    command = f"{sys.executable} -m iree_reduce_plugin {{}} | true"
    for arguments in ("--help", "devices", "verify --shape 4x4xf32"):
        done = subprocess.run(
            command.format(arguments), shell=True, capture_output=True, env={**os.environ, "PYTHONPATH": ROOT}, timeout=60
        )
        assert done.stderr == b""


def test_as_a_program():
    done = program("run", "--shape", "4x33xf32")
    assert (done.returncode, done.stderr) == (0, "") and "bit for bit" in done.stdout


def test_values_with_a_minus():
    assert joined(["--axis", "-1", "--initial", "-inf", "--axis", "--keepdims"]) == ["--axis=-1", "--initial=-inf", "--axis", "--keepdims"]


def test_same_bits():
    a = np.float32([1, np.nan, 0])
    other = a.copy()
    other.view("u4")[1] ^= 1
    assert same_bits(a, other) and same_bits(a.astype("f8"), a.astype("f8"))
    assert not same_bits(a, np.float32([1, np.nan, -0.0])) and not same_bits(a, np.float32([1, 2, 0]))
    assert not same_bits(a, a.astype("f8")) and not same_bits(a, a.reshape(1, 3))
    assert same_bits(np.int32([3]), np.int32([3])) and not same_bits(np.int32([3]), np.int32([4]))
