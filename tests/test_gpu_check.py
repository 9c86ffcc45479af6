"""`tools/gpu_check.py`: on whatever Vulkan device is here; how it takes what is wrong, hangs or crashes; what it says without a GPU."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from one_line import check_one_line

from iree_reduce_plugin.cli import main as command_line
from iree_reduce_plugin.devices import Availability, list_devices

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

import gpu_check
import gpu_children
import gpu_device
import gpu_report
from gpu_children import Finding, work_through

ROOT = Path(__file__).parents[1]
(VULKAN,) = (found for found in list_devices() if found.name == "vulkan")
needs_vulkan = pytest.mark.skipif(VULKAN.device is None, reason=f"device vulkan: {VULKAN.reason}")
SOFTWARE = VULKAN.device is not None and gpu_device.is_software(VULKAN.device)


def child(*mutations):
    return [sys.executable, "-W", "ignore", str(ROOT / "tests" / "gpu_child_mutant.py"), *mutations, "--"]


def cells(count):
    """Names of cells that compile fast."""
    every = [cell for cell in gpu_check.matrix_run.cover(VULKAN.device.target) if cell.problem.columns < 300]
    return [str(cell) for cell in every if cell.problem.result.is_float][:count]


@needs_vulkan
def test_all_right(tmp_path, capsys):
    file = tmp_path / "report.md"
    code = gpu_check.main(
        ["--device", "vulkan", "--cells", "3", "--rounds", "2", "--shape", "64xf32", "--shape", "9x1000xf16", "-o", str(file)]
    )
    out, err = capsys.readouterr()
    assert code == 0, out + err
    assert out == file.read_text() and out.startswith("```text\n") and out.endswith("\n```\n") and out.count("```") == 2
    assert "\n3 cells right of 3 (of " in out and VULKAN.device.target in out and ("SOFTWARE" in out) == SOFTWARE
    for words in ("IREE     compiler 3.", "runtime 3.", "iree_reduce_plugin 0.", "NumPy ", "driver ", "system "):
        assert words in out
    for shape in ("64xf32", "9x1000xf16"):
        assert re.search(rf"^{shape}( +[\d.]+ us +[\d.]+ us +[\d.e-]+){{2}} +[\d.]+  right$", out, re.M), out
    assert "[3/3]" in err and "include the runtime's submission" in out


@needs_vulkan
def test_wrong_refused_crashed_hung_and_gone(capsys):
    """Each is reported with commands that show it again, and the cells after it have their turn."""
    names = cells(7)
    mutations = ("wrong", "crash", "refuse", "hang", "exit")
    command = child(*(f"{how}={name}" for how, name in zip(mutations, names[1:-1], strict=True)))
    arguments = [word for name in names for word in ("--cell", name)]
    assert gpu_check.main(["--device", "vulkan", "--limit", "10", *arguments], command) == 1
    out, err = capsys.readouterr()
    assert "2 cells right of 7, 1 wrong, 2 crashed, 1 refused, 1 hung (of " in out
    assert re.search(rf"^WRONG {re.escape(names[1])}: .* is not ", out, re.M), out
    assert re.search(rf"^CRASHED {re.escape(names[2])}: SIGSEGV: the driver's last words$", out, re.M), out
    assert f"\nREFUSED {names[3]}: not on a Tuesday\n" in out
    assert f"\nHUNG {names[4]}: no answer within 10 s\n" in out
    assert f"\nCRASHED {names[5]}: the process ended before it was done\n" in out
    for name in names[1:-1]:
        assert f"\n  python tools/gpu_check.py --device vulkan --cell {name}\n" in out
    assert out.count("\n  iree-reduce-plugin run --device vulkan --shape ") == 5
    assert names[0] not in out and names[6] not in out and f"CRASHED {names[2]}" in err


@needs_vulkan
def test_the_commands_of_a_report_run(capsys):
    by_name = {str(cell): cell for cell in gpu_check.matrix_run.cover(VULKAN.device.target)}
    (name,) = cells(1)
    command = shlex.split(gpu_report._run(VULKAN.device, by_name[name]))
    assert command[0] == "iree-reduce-plugin" and command_line(command[1:]) == 0
    assert "equal to the reference bit for bit" in capsys.readouterr().out


def test_a_device_that_only_crashes_is_given_up(tmp_path):
    """Where no child as much as starts, the names are used up one by one, and not all of them."""
    names, seen = [f"cell {i}" for i in range(20)], []
    findings = work_through(names, ["cells", "hip"], 5, seen.append, [sys.executable, "-c", "import os; os.abort()"])
    assert [finding.name for finding in findings] == names
    assert [finding.state for finding in findings] == ["crashed"] * gpu_children.MOST_ENDED + ["not run"] * (20 - gpu_children.MOST_ENDED)
    assert findings[0].detail.startswith("SIGABRT") and len(seen) == gpu_children.MOST_ENDED


def test_lines_that_are_no_events_are_passed_over():
    code = 'print(\'hello\'); print(7); print(\'{"name": "a", "state": "right", "more": 1}\')'
    assert work_through(["a"], [], 30, lambda _: None, [sys.executable, "-c", code]) == [Finding("a", "right", "", {"more": 1})]


def test_a_wrong_result_that_was_timed_is_not_right():
    figures = {"bytes": 4000, "kernel": {"min": 1e-6, "median": 2e-6}, "copy": {"min": 1e-6, "median": 4e-6}}
    first, *rows = gpu_report._table([Finding("1000xf32", "wrong", "", figures), Finding("8x8xf32", "hung", "no answer")])
    assert first.split()[-1] == "result"
    assert rows[0].split() == ["1000xf32", "1.0", "us", "2.0", "us", "2", "1.0", "us", "4.0", "us", "2", "1.00", "WRONG"]
    assert rows[1].endswith("HUNG: no answer")


@needs_vulkan
def test_a_timing_that_is_not_right_has_its_command(capsys):
    code = 'print(\'{"name": "8x8xf32", "state": "failed", "detail": "no memory"}\')'
    arguments = ["--device", "vulkan", "--cells", "0", "--shape", "8x8xf32"]
    assert gpu_check.main(arguments, [sys.executable, "-c", code]) == 1
    out = capsys.readouterr().out
    assert "FAILED: no memory\n" in out and "\nFAILED: iree-reduce-plugin run --device vulkan --shape 8x8xf32\n```" in out


@pytest.mark.parametrize("software", [None, VULKAN] if SOFTWARE else [None])
def test_without_a_gpu(software, monkeypatch, capsys):
    """Software is none unless it is named."""
    absent = [Availability(name, None, f"no {name} library") for name in ("hip", "cuda", "vulkan")]
    monkeypatch.setattr(gpu_device, "list_devices", lambda: [*absent[:2], software or absent[2]])
    assert gpu_check.main([]) == 2
    out, err = capsys.readouterr()
    assert not out and err.startswith("error: no GPU is usable here: ")
    check_one_line(err.strip(), ["no hip library", "no cuda library", "only software" if software else "no vulkan", "--device vulkan"], 600)
    assert gpu_check.main(["--device", "hip"]) == 2
    check_one_line(capsys.readouterr().err.strip(), ["hip", "no hip library", "install the GPU's driver"], 300)


@needs_vulkan
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--cell", "sum-3xf32"], ["sum-3xf32", "give one that a report names"]),
        (["--cells", "0", "--rounds", "0"], ["nothing is left to do"]),
        (["--shape", "4x1xf32"], ["4x1xf32", "nothing to reduce"]),
        (["--shape", "4xf33"], ["f33"]),
        (["-o", "no/such/folder/report.md"], ["no/such/folder/report.md", "give another path"]),
    ],
)
def test_what_is_refused_before_anything_runs(arguments, words, capsys):
    assert gpu_check.main(["--device", "vulkan", *arguments], ["false"]) == 2
    check_one_line(capsys.readouterr().err.strip(), ["error: ", *words], 300)


def test_without_a_clone(tmp_path):
    shutil.copytree(ROOT / "tools", tmp_path / "tools")
    done = subprocess.run([sys.executable, str(tmp_path / "tools" / "gpu_check.py")], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    check_one_line(done.stderr.strip(), ["matrix_run", "clone of the repository", "pip install ."], 300)


def test_help_has_examples(capsys):
    with pytest.raises(SystemExit):
        gpu_check.main(["--help"])
    assert capsys.readouterr().out.count("  python tools/gpu_check.py") >= 4
