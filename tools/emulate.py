"""Compiles a reduction for an AMD GPU, runs it on an emulator of the GPU's instruction set, and compares with `reference`.

    python tools/emulate.py --shape 4x4096xf32 --tuning tuning.json --target gfx942 --tinygrad ../tinygrad

For those without an AMD GPU: it shows that the code is right, and how many instructions of which kind a workgroup executes. It needs a
checkout of https://github.com/tinygrad/tinygrad at commit a9069c177a (the one known to work), which --tinygrad or the environment
variable IREE_REDUCE_TINYGRAD names, clang, and pyelftools (`pip install "iree_reduce_plugin[emulator]"`).
On gfx1100 the kernel is compiled without buffer instructions, which the emulator lacks there.
Exit codes: 0 equal to the reference, no access out of range; 1 not; 2 a wrong option, or something missing.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import math
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from hsaco_emulator import KNOWN_COMMIT, SETS, CodeObject, EmulatorMissing, Run, checked_out, open_emulator

from iree_reduce_plugin.compare import allowed_units, units_apart
from iree_reduce_plugin.compiler import DEFAULT_TIMEOUT, compile_job, emit, telling_line
from iree_reduce_plugin.errors import CompileError, InputError, ReduceError, TuningError, check
from iree_reduce_plugin.job import STRATEGIES, Job
from iree_reduce_plugin.plan import make_job
from iree_reduce_plugin.problem import Problem
from iree_reduce_plugin.reference import as_matrix, trees
from iree_reduce_plugin.shape_text import parse_shape
from iree_reduce_plugin.targets import find_target
from iree_reduce_plugin.toolchain import compile_flags


@dataclasses.dataclass(frozen=True)
class Emulation:
    """A kernel's result, the run it comes from, and what the report says about the kernel. `expected`: None without a tuning."""

    result: Any
    expected: Any
    run: Run
    dispatches: Sequence[dict[str, Any]]
    allowed: float  # units in the last place that the result may be off the reference
    others: tuple[tuple[Any, Any], ...] = ()  # (result, expected) of several ops' further results

    @property
    def workgroups(self) -> int:
        return sum(math.prod(dispatch["workgroup_count"]) for dispatch in self.dispatches)

    @property
    def units(self) -> float:
        return max(units_apart(*pair) for pair in ((self.result, self.expected), *self.others))

    @property
    def right(self) -> bool:
        return self.expected is not None and self.units <= self.allowed


def emulated_job(problem: Problem, tuning: object, target: str, strategy: str = "subgroup") -> Job:
    """The job as the emulator needs it compiled. Raises TuningError and InputError."""
    check(target in SETS, f"target {target!r} is not emulated: use one of {', '.join(SETS)}", InputError)
    check(not problem.is_empty, f"{problem}: the array is empty, and nothing is compiled", InputError)
    size = SETS[target][1]
    job, _ = make_job(problem, tuning, find_target(target), strategy)
    layout = job.layout
    check(
        layout is None or layout.subgroup_size == size,
        f"subgroup_size {layout and layout.subgroup_size}: the emulator of {target} has {size} lanes; use a lane_basis of that product",
        TuningError,
    )
    return job


def emulate(job: Job, x: Any, mask: Any = None) -> Emulation:
    """Compiles the job and runs it on an array of the problem's shape and type, and its mask; `open_emulator` comes first."""
    problem, inputs = job.problem, [np.ascontiguousarray(one) for one in (x, mask) if one is not None]
    compiled = _compiled(job)
    read, runs = inputs, []
    for part, kernel in zip(_problems(job), compiled, strict=True):
        shapes = [element.bytes * math.prod(d.extent for d in part.result_memory) for element in part.results]
        buffers = _buffers(kernel.places, [one.nbytes for one in read] + shapes)
        views = [buffers[binding][offset:] for binding, offset in kernel.places]
        for view, one in zip(views, read, strict=False):
            view[: one.nbytes] = one.reshape(-1).view(np.uint8)
        written = {binding for binding, _ in kernel.places[len(read) :]}
        sent, held = ([buffers[b] for b in sorted(buffers) if (b in written) == into] for into in (False, True))
        threads = kernel.dispatch["workgroup_size"][0]
        code = CodeObject(kernel.code, kernel.dispatch["kernel"])
        runs.append(code.run(job.target.name, kernel.dispatch["workgroup_count"], threads, sent, held))
        read = [view[:size].view(e.numpy) for view, size, e in zip(views[len(read) :], shapes, part.results, strict=True)]
    known = job.tuning is not None or problem.columns == 1
    expected: list[Any] = list(trees([as_matrix(one, problem) for one in inputs], problem, job.layout)) if known else [None] * len(read)
    shaped = [[None if one is None else one.reshape(problem.kept_shape) for one in pair] for pair in zip(read, expected, strict=True)]
    dispatches = [kernel.dispatch for kernel in compiled]
    return Emulation(*shaped[0], _together(runs), dispatches, allowed_units(job), tuple((a, b) for a, b in shaped[1:]))


def _problems(job: Job) -> list[Problem]:
    """What each kernel computes."""
    return [part.problem for part in job.parts] if job.has_schedule and job.layout is not None else [job.problem]


def _buffers(places: Sequence[tuple[int, int]], sizes: Sequence[int]) -> dict[int, Any]:
    """One for each binding: IREE puts several arrays into one buffer, at offsets that the kernel knows."""
    ends: dict[int, int] = {}
    for (binding, offset), size in zip(places, sizes, strict=True):
        ends[binding] = max(ends.get(binding, 0), offset + size)
    return {binding: np.zeros(end, np.uint8) for binding, end in ends.items()}


def _together(runs: Sequence[Run]) -> Run:
    counts: collections.Counter[str] = collections.Counter()
    for run in runs:
        counts.update(run.instructions)
    return Run(dict(counts), sum(run.out_of_range for run in runs))


@dataclasses.dataclass(frozen=True)
class Compiled:
    """One kernel: the report's entry, the code object, and where its arrays are, the inputs first: (binding, offset)."""

    dispatch: dict[str, Any]
    code: bytes
    places: list[tuple[int, int]]


def _compiled(job: Job) -> list[Compiled]:
    with tempfile.TemporaryDirectory(prefix="iree_reduce_") as dump:
        artifact = compile_job(job, dump_dir=dump)
        problems = _problems(job)
        if len(artifact.dispatches) != len(problems):
            raise CompileError(f"{job.problem}: IREE made {len(artifact.dispatches)} dispatches of it, where {len(problems)} are emulated")
        texts = [path.read_text() for path in sorted(Path(dump).glob("configured_*.mlir"))]
        places = [_places(text, problem) for text, problem in zip(texts, problems, strict=True)]
        extra = SETS[job.target.name][2]
        if extra:  # flags of the whole process, which the compiler's process can't be given: the same texts, through iree-compile
            for old in Path(dump).iterdir():
                old.unlink()
            _iree_compile(job, extra, Path(dump))
        codes = [path.read_bytes() for path in sorted(Path(dump).glob("*.hsaco"))]
        codes = codes * len(places) if len(codes) == 1 else codes  # kernels of one code object, or one each
        return [Compiled(*found) for found in zip(artifact.dispatches, codes, places, strict=True)]


def _places(text: str, problem: Problem) -> list[tuple[int, int]]:
    """Of the inputs and the results, as IREE wrote the dispatch."""
    found = re.findall(r"binding\.subspan .*? binding\((\d+)\) .*?offset\(%c(\d+)(?:_\d+)?\)", text)
    wanted = len(problem.inputs) + len(problem.results)
    if len(found) != wanted:
        raise CompileError(f"{problem}: the kernel has {len(found)} arrays, where {wanted} were expected")
    return [(int(binding), int(offset)) for binding, offset in found]


def _iree_compile(job: Job, extra: Sequence[str], dump: Path) -> None:
    texts = {"dispatch": dump / "dispatch.mlir"}
    flags = [*compile_flags(job.target), *extra, f"--iree-hal-dump-executable-binaries-to={dump}", "-o", str(dump / "out.vmfb")]
    if job.strategy == "subgroup" and job.tuning is not None:
        texts["schedule"] = dump / "schedule.mlir"
        flags.append(f"--iree-codegen-transform-dialect-library={texts['schedule']}")
    for what, path in texts.items():
        path.write_text(str(emit(job, what)))
    command = [sys.executable, "-m", "iree.compiler.tools.scripts.iree_compile", str(texts["dispatch"]), *flags]
    found = subprocess.run(command, capture_output=True, text=True, timeout=DEFAULT_TIMEOUT)
    if found.returncode:
        raise CompileError(f"iree-compile failed on {job.problem}: {telling_line(found.stderr) or found.returncode}")


def random_data(problem: Problem, seed: int = 0) -> Any:
    """Values whose total depends on the order: factors close to 1 for a product, so that it neither overflows nor vanishes."""
    rng = np.random.default_rng(seed)
    if problem.input.is_bool:
        return rng.random(problem.shape) < 0.5
    if not problem.input.is_float:
        low, high = problem.input.limits
        return rng.integers(max(low, -1000), min(high, 1000), problem.shape).astype(problem.input.numpy)
    values = rng.standard_normal(problem.shape)
    if problem.op.name == "log_sum":
        values = np.abs(values)
    return (1 + values / np.sqrt(problem.columns) if problem.op.name == "prod" else values).astype(problem.input.numpy)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0], epilog=f"tinygrad known to work: {KNOWN_COMMIT}")
    parser.add_argument("--shape", required=True, help="shape and type, e.g. 4x4096xf32")
    parser.add_argument("--tuning", help="JSON, the path of a JSON file, or an MLIR attribute; left out: the default for the target")
    parser.add_argument("--op", default="sum", help="as of reduce; several joined by commas")
    parser.add_argument("--axis", default="-1", help="an integer, several joined by commas, or none for all (default: -1)")
    parser.add_argument("--target", default="gfx942", choices=SETS)
    parser.add_argument("--strategy", default="subgroup", choices=STRATEGIES)
    parser.add_argument("--dtype", help="type that is accumulated and returned, as NumPy's dtype")
    parser.add_argument("--initial", help="number that joins the result")
    parser.add_argument("--where", action="store_true", help="with a random mask, as NumPy's where=")
    parser.add_argument("--seed", type=int, default=0, help="of the random data")
    parser.add_argument("--tinygrad", metavar="DIR", help="checkout of tinygrad (default: $IREE_REDUCE_TINYGRAD)")
    options = parser.parse_args(arguments)
    try:
        root = open_emulator(options.tinygrad)
        shape, dtype = parse_shape(options.shape)
        problem = Problem.of(
            shape, dtype, options.op, _axis(options.axis), False, options.dtype, _number(options.initial), masked=options.where
        )
        job = emulated_job(problem, options.tuning, options.target, options.strategy)
    except (EmulatorMissing, ReduceError, ValueError, IndexError) as e:  # NumPy's AxisError is both of the last two
        print(f"error: {e}", file=sys.stderr)
        return 2
    try:
        mask = np.random.default_rng(options.seed + 1).random(shape) < 0.5 if options.where else None
        found = emulate(job, random_data(problem, options.seed), mask)
    except (ReduceError, RuntimeError, MemoryError) as e:
        print(f"error: {e}", file=sys.stderr)
        return 1
    print(f"{problem}, for {options.target}, strategy {options.strategy}")
    print(f"tuning                 {'none' if job.tuning is None else job.tuning.to_json()}")
    if found.expected is None:
        print("equal to the reference not known: without a tuning there is none")
    else:
        near = f"within {found.units:.3g} units in the last place, of {found.allowed:.3g} allowed"
        print(f"equal to the reference {'yes, bit for bit' if found.units == 0 else near if found.right else 'NO'}")
    for dispatch in found.dispatches:
        print(f"workgroups             {math.prod(dispatch['workgroup_count'])} of {dispatch['workgroup_size'][0]} threads")
    each = f"{found.run.total / found.workgroups:.10g} a workgroup: {_each(found.run.kinds, found.workgroups)}"
    print(f"instructions executed  {found.run.total} in all, {each}")
    print(f"accesses out of range  {found.run.out_of_range}")
    print(f"emulator               tinygrad {checked_out(root)[:10]} (known to work: {KNOWN_COMMIT[:10]})")
    return 0 if (found.right or found.expected is None) and not found.run.out_of_range else 1


def _each(kinds: dict[str, int], workgroups: int) -> str:
    return ", ".join(f"{kind} {count / workgroups:.6g}" for kind, count in kinds.items())


def _axis(text: str) -> int | tuple[int, ...] | None:
    if text.lower() == "none":
        return None
    axes = tuple(int(part) for part in text.split(","))
    return axes[0] if len(axes) == 1 else axes


def _number(text: str | None) -> int | float | None:
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        return float(text)


if __name__ == "__main__":
    sys.exit(main())
