"""What a call costs besides its kernel: warm calls, and the first one of a process, from the cache on disk and compiled. On the CPU."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import iree.runtime as rt
import numpy as np

from iree_reduce_plugin import compile, reduce
from iree_reduce_plugin.bench import Contender, measure
from iree_reduce_plugin.bench_report import aligned, duration
from iree_reduce_plugin.devices import find_device
from iree_reduce_plugin.drivers import instance, open_driver
from iree_reduce_plugin.plan import Plan

ROOT = Path(__file__).resolve().parents[1]
SHAPES = ((16,), (1024, 1024))
MOST_PROCESSES = 11  # of each kind, whatever the rounds: they take seconds

_IMPORTS = "import numpy, iree.runtime"
_CALL = "import numpy as np; from iree_reduce_plugin import reduce; reduce(np.ones((4, 4096), 'f4'), device='cpu')"
_HOST = int(rt.MemoryType.HOST_LOCAL) | int(rt.MemoryType.DEVICE_VISIBLE)
_F32 = rt.HalElementType.FLOAT_32
_USAGE = int(rt.BufferUsage.DEFAULT) | int(rt.BufferUsage.MAPPING)


def overhead(rounds: int) -> str:
    """The table. Warm calls take turns in this process, and new processes do; the shortest of each counts."""
    lines: list[tuple[str, ...]] = [("", "", "min", "median")]
    for shape in SHAPES:
        lines += _lines("x".join(map(str, shape)) + " f32, sum of the last axis, warm", _warm(shape, rounds))
    lines += _lines("a new process", _processes(min(rounds, MOST_PROCESSES)))
    notes = [
        "kernel only: the module invoked on a buffer that exists already, by the same driver; what reduce and plan add to it is overhead",
        f"processes: `python -c`, start to end; at most {MOST_PROCESSES} rounds",
    ]
    return "\n".join([*aligned(lines, left=2), "", *notes])


def _lines(title: str, contenders: Sequence[Contender]) -> list[tuple[str, ...]]:
    return [
        (title if i == 0 else "", one.name, duration(one.minimum or 0.0), duration(one.median or 0.0)) for i, one in enumerate(contenders)
    ]


def _warm(shape: tuple[int, ...], rounds: int) -> list[Contender]:
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    plan = compile(x, target="cpu")
    calls: dict[str, Callable[[], Any]] = {
        "numpy": lambda: np.sum(x, axis=-1),
        "reduce": lambda: reduce(x, device="cpu"),
        "plan": lambda: plan(x),
        "kernel only": _kernel(plan, x),
    }
    contenders = [Contender(name, call) for name, call in calls.items()]
    measure([contenders], rounds)
    return contenders


def _kernel(plan: Plan, x: Any) -> Callable[[], Any]:
    """The module's function on a buffer that exists; the result stays where it is."""
    opened = open_driver(find_device("cpu").driver_for(x.nbytes))
    module = rt.VmModule.copy_buffer(instance(), plan.vmfb)
    context = rt.VmContext(instance(), modules=[opened.hal_module, module])
    function = module.lookup_function("reduce")
    view = opened.allocator.allocate_buffer_copy(_HOST, _USAGE, opened.device, x.reshape(plan.problem.memory_shape), _F32)

    def call() -> None:
        inputs, outputs = rt.VmVariantList(1), rt.VmVariantList(1)
        inputs.push_ref(view)
        context.invoke(function, inputs, outputs)

    return call


def _processes(rounds: int) -> list[Contender]:
    with tempfile.TemporaryDirectory(prefix="iree_reduce_") as folder:
        kept = os.path.join(folder, "kept")
        _python(_CALL, kept)  # fills it

        def compiled() -> None:
            with tempfile.TemporaryDirectory(dir=folder) as empty:
                _python(_CALL, empty)

        contenders = [
            Contender(_IMPORTS, lambda: _python(_IMPORTS, kept)),
            Contender("first call, kernel in the cache", lambda: _python(_CALL, kept)),
            Contender("first call, cache empty", compiled),
        ]
        for turn in range(rounds):
            for contender in (*contenders[turn % 3 :], *contenders[: turn % 3]):
                start = time.perf_counter()
                contender.call()  # type: ignore[misc]
                contender.seconds.append(time.perf_counter() - start)
    return contenders


def _python(code: str, cache: str) -> None:
    environment = {**os.environ, "IREE_REDUCE_CACHE_DIR": cache, "PYTHONPATH": os.pathsep.join([str(ROOT), *_path()])}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=300, capture_output=True)


def _path() -> list[str]:
    given = os.environ.get("PYTHONPATH")
    return [given] if given else []
