"""What `gpu_check.py` leaves to a process of its own, as a kernel may hang or crash it: one JSON object a line on standard output.

python tools/gpu_child.py cells DEVICE NAME...          cells of the matrix, each `started`, then how it ended
python tools/gpu_child.py time DEVICE ROUNDS SHAPE...   timings, likewise
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import matrix_run  # noqa: E402

from iree_reduce_plugin.devices import Device, find_device  # noqa: E402
from iree_reduce_plugin.errors import InputError, TuningError  # noqa: E402


def main(arguments: list[str]) -> None:
    what, name, *rest = arguments
    device = find_device(name)
    if what == "cells":
        cells = {str(cell): cell for cell in [*matrix_run.cover(device.target), *matrix_run.small(device.target)]}
        for cell in rest:
            _report(cell, lambda cell=cell: _cell(device, cells[cell]))
    else:
        import device_timing  # only here: its compilations are of no use to the cells
        from gpu_device import is_software

        rounds, *shapes = rest
        for shape in shapes:
            _report(shape, lambda shape=shape: _state(device_timing.measure(device, shape, int(rounds), is_software(device))))


def _cell(device: Device, cell: matrix_run.Cell) -> dict[str, Any]:
    wrong = matrix_run.trouble(device, cell)
    return {"state": "right"} if wrong is None else {"state": "wrong", "detail": wrong}


def _state(figures: dict[str, Any]) -> dict[str, Any]:
    return {"state": "right" if figures["right"] else "wrong", "detail": "" if figures["right"] else "not the reference's bits", **figures}


def _report(name: str, work: Callable[[], dict[str, Any]]) -> None:
    """Says that the work is started and how it ended. Whatever is raised is a finding, and the next one's turn comes."""
    _say({"name": name, "state": "started"})
    try:
        found = work()
    except (InputError, TuningError) as e:
        found = {"state": "refused", "detail": str(e)}
    except Exception as e:
        found = {"state": "failed", "detail": f"{type(e).__name__}: {e}"}
    _say({"name": name, **found})


def _say(event: dict[str, Any]) -> None:
    print(json.dumps(event), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
