"""Compiled for the ROCm targets: the marks of the schedule, read from the assembly by the report, and the ways to the same code object."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from matrix import spelled

from iree_reduce_plugin import compiler
from iree_reduce_plugin.errors import TuningError
from iree_reduce_plugin.plan import make_job
from iree_reduce_plugin.problem import Problem
from iree_reduce_plugin.shape_text import parse_shape
from iree_reduce_plugin.targets import find_target
from iree_reduce_plugin.toolchain import compile_flags

TARGETS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")


SEEDS = (
    ("seed1", (4096,), "f32", "sum", spelled(64, 4, 4)),
    ("seed2", (4, 4096), "f32", "sum", spelled(16, 4, 4, 4)),
)
WAVE_64 = (
    *SEEDS,
    ("one subgroup", (8, 4096), "f32", "sum", spelled(64, 1, 4, 1)),
    ("row subgroups", (16, 2048), "f32", "sum", spelled(8, 2, 4, 8, 2)),
    ("thread rows", (8, 4096), "f32", "sum", spelled(16, 4, 4, 4, 1, 2)),
    ("unrolled", (4, 16384), "f32", "sum", spelled(64, 4, 4, 1, unroll=4)),
    ("3 subgroups", (6, 1536), "f32", "max", spelled(16, 3, 4, 4)),
    ("both tails", (6, 1000), "f32", "sum", spelled(16, 4, 4, 4)),
    ("16 subgroups", (65536,), "f32", "sum", spelled(64, 16, 4)),
    ("f64", (8, 2048), "f64", "sum", spelled(32, 4, 2, 2)),
    ("f16", (8, 4096), "f16", "sum", spelled(16, 4, 8, 4)),
    ("bf16", (3, 4097), "bf16", "sum", spelled(64, 4, 8, 1)),
    ("i32", (8, 4096), "i32", "min", spelled(16, 4, 4, 4)),
    ("i64", (5, 1024), "i64", "prod", spelled(32, 2, 2, 2)),
    ("3 elements", (4, 768), "f32", "sum", spelled(64, 4, 3, 1)),
)
WAVE_32 = (
    ("1-D", (4096,), "f32", "sum", spelled(32, 4, 4)),
    ("rows", (4, 4096), "f32", "sum", spelled(8, 4, 4, 4)),
    ("one subgroup", (8, 4096), "f32", "max", spelled(32, 1, 4, 1)),
    ("both tails", (6, 1000), "f16", "sum", spelled(8, 5, 8, 4)),
    ("f64", (8, 2048), "f64", "prod", spelled(16, 4, 2, 2, 2)),
)
SLOW_ON = ("gfx90a", "gfx950")  # what is not a seed there


def cases():
    for target in TARGETS:
        for name, *case in WAVE_64:
            few = target in SLOW_ON or (target.startswith("gfx1") and name not in ("both tails", "row subgroups", "f16"))
            marks = [pytest.mark.slow] if few and not name.startswith("seed") else []
            yield pytest.param(target, *case, marks=marks, id=f"{target}-{name}-64")
        if 32 in find_target(target).subgroup_sizes:
            for name, *case in WAVE_32:
                yield pytest.param(target, *case, id=f"{target}-{name}-32")


def job_of(target, shape, dtype, op, given, strategy="subgroup"):
    return make_job(Problem.of(shape, dtype, op), given, find_target(target), strategy)[0]


@pytest.mark.parametrize(("target", "shape", "dtype", "op", "given"), list(cases()))
def test_the_marks_of_the_schedule(target, shape, dtype, op, given):
    job = job_of(target, shape, dtype, op, given)
    layout = job.layout
    (entry,) = compiler.load_or_compile(job).dispatches
    assert entry["workgroup_size"] == [layout.workgroup_size, 1, 1]
    assert entry["workgroup_count"] == layout.workgroup_count
    assert entry["subgroup_size"] == layout.subgroup_size
    assert entry["shared_memory_bytes"] == layout.shared_memory_bytes
    assert entry["spills"] == 0
    several = layout.workgroup_size > layout.subgroup_size
    assert entry["barriers"] == {"in_loop": 0, "outside": int(layout.merges and several)}
    if layout.columns.elements * job.problem.input.bytes >= 16 and layout.full_steps:
        assert entry["wide_loads"]["b128"] > 0
    assert sum(entry["lane_ops"].values()) > 0


@pytest.mark.parametrize("target", ["gfx942", "gfx1100"])
def test_no_scratch_memory(target):
    assembly = compiler.emit(job_of(target, *SEEDS[1][1:]), "asm")
    assert re.search(r"\.private_segment_fixed_size:\s*0\b", assembly)
    assert not re.search(r"\bscratch_(?:load|store)", assembly)


@pytest.mark.parametrize(("name", "shape", "dtype", "op", "given"), SEEDS)
def test_plain_iree_compile_gives_the_same_code_object(tmp_path, name, shape, dtype, op, given):
    """What `--emit dispatch` and `--emit schedule` print, without this package."""
    job = job_of("gfx942", shape, dtype, op, given)
    dispatch, schedule = tmp_path / "dispatch.mlir", tmp_path / "schedule.mlir"
    dispatch.write_text(compiler.emit(job, "dispatch"))
    schedule.write_text(compiler.emit(job, "schedule"))
    command = [sys.executable, "-m", "iree.compiler.tools.scripts.iree_compile", str(dispatch), *compile_flags(job.target)]
    command += [f"--iree-codegen-transform-dialect-library={schedule}", f"--iree-hal-dump-executable-binaries-to={tmp_path}"]
    subprocess.run([*command, "-o", str(tmp_path / "out.vmfb")], check=True, capture_output=True, timeout=120)
    (code,) = tmp_path.glob("*.hsaco")
    assert code.read_bytes() == compiler.emit(job, "hsaco")


def test_the_schedule_has_the_golden_shape():
    """Subgroups around lanes, threads for the merge after one barrier, and nothing that would only be there for tails."""
    text = compiler.emit(job_of("gfx942", *SEEDS[1][1:]), "schedule")
    kernel, sequence = text.split("transform.named_sequence @__kernel_config")
    loops = re.findall(r"mapping = \[(.*?)\]", kernel)  # at the end of each loop: the inner ones first
    assert [re.findall(r"#gpu\.(\w+)", mapping) for mapping in loops] == [["lane", "lane"], ["warp", "warp"], ["thread"], ["block"]]
    assert kernel.count("gpu.barrier") == 1 and kernel.index("#gpu.warp") < kernel.index("gpu.barrier") < kernel.index("#gpu.thread")
    assert "gpu.subgroup_reduce add" in kernel and "func private @kernel" in kernel
    for op in ("structured.match", "cast_and_call", "bufferize", "forall_to_workgroup", "map_nested_forall_to_gpu_threads"):
        assert op in sequence
    assert "#iree_codegen.no_pipeline" in text and "workgroup_size = [256, 1, 1] subgroup_size = 64" in text
    assert "affine.min" not in kernel and "arith.select" not in kernel


def test_tails_show_in_the_schedule():
    """Rows overlap: their places are clamped. Columns past K don't count: what is read for them is replaced."""
    text = compiler.emit(job_of("gfx942", (6, 1000), "f32", "sum", SEEDS[1][4]), "schedule")
    assert "affine.min" in text and "arith.select" in text


def test_nothing_is_copied():
    """Each loop takes the whole result and gives it back: in memory that is a copy onto itself, which must be gone."""
    for case in (("7x33x21xf32", 1), ("37x101xf32", 0), ("4x4096xf32", 1)):
        job, _ = make_job(Problem.of(*parse_shape(case[0]), "sum", case[1]), None, find_target("gfx942"))
        assembly = compiler.emit(job, "asm")
        stores = re.findall(r"^\s+(?:buffer|global|flat)_store", assembly, re.M)
        assert len(stores) <= job.layout.rows.held * job.layout.inner.held, case
        assert len(re.findall(r"^\s+ds_write", assembly, re.M)) <= job.layout.rows.held * job.layout.inner.held, case


@pytest.mark.parametrize("strategy", ["iree", "default"])
@pytest.mark.parametrize(("name", "shape", "dtype", "op", "given"), SEEDS)
def test_the_other_strategies_compile(strategy, name, shape, dtype, op, given):
    job = job_of("gfx942", shape, dtype, op, None if strategy == "default" else given, strategy)
    (entry,) = compiler.load_or_compile(job).dispatches
    if strategy == "iree":
        assert entry["workgroup_size"] == [256, 1, 1] and entry["subgroup_size"] == 64


def test_a_subgroup_size_that_the_target_does_not_have_is_refused():
    with pytest.raises(TuningError, match="subgroup_size 32 is not one that gfx942 has: use 64"):
        job_of("gfx942", *WAVE_32[0][1:])
