"""test_data/ is what the tool writes, and the tool notices where it is not."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from iree_reduce_plugin import Tuning

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

import write_test_data


def test_the_files_are_what_the_tool_writes(capsys):
    assert write_test_data.main(["--check"]) == 0, capsys.readouterr().err


@pytest.mark.parametrize("seed", write_test_data.SEEDS, ids=lambda seed: seed["name"])
def test_the_tunings_are_read(seed):
    path = write_test_data.ROOT / f"{seed['name']}.tuning.json"
    assert Tuning.parse(path).to_dict() == seed["tuning"] == json.loads(path.read_text())


def test_a_changed_a_missing_and_a_foreign_file_are_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(write_test_data, "ROOT", tmp_path / "test_data")
    monkeypatch.setattr(write_test_data, "contents", lambda: {"a": "1\n", "b": "2\n"})
    assert write_test_data.main([]) == 0 and write_test_data.main(["--check"]) == 0
    (tmp_path / "test_data" / "a").write_text("3\n")
    (tmp_path / "test_data" / "b").unlink()
    (tmp_path / "test_data" / "c").touch()
    assert write_test_data.main(["--check"]) == 1
    found = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in found] == [
        "test_data/a differs",
        "test_data/b is missing",
        "test_data/c is not written by this tool",
    ]
