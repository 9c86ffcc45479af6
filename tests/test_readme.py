"""The README's examples do what it says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from iree_reduce_plugin.devices import list_devices

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
(VULKAN,) = (found for found in list_devices() if found.name == "vulkan")
TINYGRAD = os.environ.get("IREE_REDUCE_TINYGRAD")


def blocks(kind):
    return re.findall(rf"^```{kind}\n(.*?)^```", README, re.M | re.S)


@pytest.fixture
def here(tmp_path, monkeypatch):
    shutil.copytree(ROOT / "test_data", tmp_path / "test_data")
    shutil.copytree(ROOT / "tools", tmp_path / "tools")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(block):
    """The block in a shell, with this environment in the place of `.venv`."""
    text = block.replace(".venv/bin", str(Path(sys.executable).parent))
    return subprocess.run(["bash", "-euo", "pipefail", "-c", text], capture_output=True, text=True, timeout=300)


@pytest.mark.skipif(not (Path(sys.executable).parent / "iree-reduce-plugin").exists(), reason="the package is not installed beside python")
@pytest.mark.parametrize("block", blocks("bash"))
def test_commands(here, block):
    done = run(block)
    assert done.returncode == 0, done.stderr
    assert any(path.suffix == ".vmfb" for path in here.iterdir()) or (" explain " in block and "compute units" in done.stdout)


@pytest.mark.skipif(not (Path(sys.executable).parent / "iree-reduce-plugin").exists(), reason="the package is not installed beside python")
@pytest.mark.parametrize("block", blocks("refused"))
def test_what_is_refused(here, block):
    done = run(block)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "workgroup_size" in done.stderr, done.stderr


@pytest.mark.skipif(not (Path(sys.executable).parent / "iree-reduce-plugin").exists(), reason="the package is not installed beside python")
@pytest.mark.parametrize("block", blocks("measure"))
def test_the_measurement(here, block):
    """Shorter than a reader's."""
    done = run(block.rstrip() + " --rounds 1 --read-size 1M")
    assert done.returncode == 0 and done.stdout.count(" subgroup ") == 2 and "GB/s" in done.stdout, done.stderr


@pytest.mark.skipif(TINYGRAD is None, reason="IREE_REDUCE_TINYGRAD does not name a checkout of tinygrad")
@pytest.mark.parametrize("block", blocks("emulator"))
def test_the_emulator(here, block):
    done = run(block.replace("--tinygrad tinygrad", f"--tinygrad {TINYGRAD}"))
    assert done.returncode == 0 and "yes, bit for bit" in done.stdout, done.stderr


@pytest.mark.skipif(VULKAN.device is None, reason=f"device vulkan: {VULKAN.reason}")
@pytest.mark.parametrize("block", blocks("gpu"))
def test_the_check_of_a_gpu(monkeypatch, block):
    """A part of it, on whatever Vulkan device is here."""
    monkeypatch.chdir(ROOT)
    done = run(block.rstrip() + " --device vulkan --cells 2 --rounds 1 --shape 64xf32")
    assert done.returncode == 0 and "2 cells right of 2" in done.stdout, done.stderr


def test_python_examples(here, capsys):
    names = {}
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), names)
    assert names["y"].tolist() == [4096.0] * 4
    assert "{'in_loop': 0, 'outside': 1}" in capsys.readouterr().out


@pytest.mark.skipif(VULKAN.device is None, reason=f"device vulkan: {VULKAN.reason}")
@pytest.mark.parametrize("block", blocks("vulkan"))
def test_vulkan(here, block):
    done = run(block)
    assert done.returncode == 0 and "equal to the reference bit for bit" in done.stdout, done.stderr
