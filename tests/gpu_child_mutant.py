"""`tools/gpu_child.py` with cells that are wrong, hang or crash: the child of a test of `tools/gpu_check.py`.

python gpu_child_mutant.py HOW=CELL... -- what the child is given    that cell is treated so
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

import gpu_child
import matrix_run

from iree_reduce_plugin.errors import InputError


def broken(how, device, cell):
    if how == "crash":
        print("the driver's last words", file=sys.stderr, flush=True)
        ctypes.string_at(0)
    elif how == "hang":
        time.sleep(600)
    elif how == "exit":
        os._exit(0)
    elif how == "refuse":
        raise InputError("not on a Tuesday")
    elif how == "wrong":  # one bit of the reference
        tree = matrix_run.tree
        matrix_run.tree = lambda *arguments: _flipped(tree(*arguments))
        try:
            return trouble(device, cell)
        finally:
            matrix_run.tree = tree
    return trouble(device, cell)


def _flipped(expected):
    expected = np.array(expected)
    expected.reshape(-1).view("u1")[0] ^= 1
    return expected


trouble = matrix_run.trouble

if __name__ == "__main__":
    at = sys.argv.index("--")
    mutations = [argument.split("=", 1) for argument in sys.argv[1:at]]
    matrix_run.trouble = lambda device, cell: broken(next((how for how, part in mutations if part == str(cell)), None), device, cell)
    gpu_child.main(sys.argv[at + 1 :])
