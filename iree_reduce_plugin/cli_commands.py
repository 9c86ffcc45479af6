"""What each command of the command line does. Arguments are checked, and output paths looked at, before anything is compiled."""

from __future__ import annotations

import argparse
import json
import math
from typing import Any

import numpy as np

from . import cache, compiler
from .cli_files import STANDARD_OUTPUT, check_files, check_folder, load, save, write
from .compare import Comparison, compare
from .devices import ENVIRONMENT, find_device, list_devices
from .element_types import ElementType
from .errors import DeviceError, InputError
from .exactness import is_exact
from .job import Job
from .layout import Layout
from .loops import ROWS
from .plan import Plan, build_plan, make_job
from .problem import Problem
from .random_array import random_array
from .resolve import loop_names
from .shape_text import parse_shape
from .targets import find_target
from .tuning import product
from .words import counted

Options = argparse.Namespace

TEXTS = ("dispatch", "schedule", "asm")


def compile_command(options: Options) -> int:
    job, source = make_job(_problem(options, *parse_shape(options.shape)), options.tuning, find_target(options.target), options.strategy)
    form = options.emit
    output = options.output or (STANDARD_OUTPUT if form in TEXTS else None)
    check_files(output, options.report)
    if options.dump_dir is not None:
        check_folder(options.dump_dir)
    if job.problem.is_empty and (form != "vmfb" or output):
        raise InputError(f"emit {form}: {job.problem}: the array is empty, so that there is nothing to compile; only --report works")
    if form != "vmfb":
        if output is None:
            raise InputError("emit hsaco: it is not text, so give the file it goes to: -o FILE")
        write(compiler.emit(job, form, options.timeout), output)
    if form == "vmfb" or options.report or options.dump_dir:
        plan = _plan(options, job, source)
        if options.report:
            write(json.dumps(plan.report, indent=2) + "\n", options.report)
        if form == "vmfb" and output:
            write(plan.vmfb, output)
        elif form == "vmfb" and options.report != STANDARD_OUTPUT:
            print(_summary(plan))
    return 0


def run_command(options: Options) -> int:
    device = find_device(options.device)
    x = None if options.input is None else load(options.input)
    shape, element = parse_shape(options.shape) if x is None else (x.shape, ElementType.of(x.dtype))
    problem = _problem(options, shape, element)
    job, source = make_job(problem, options.tuning, find_target(device.target), options.strategy)
    check_files(options.output)
    if x is None:
        x = random_array(problem, options.seed)
    mask = np.random.default_rng(options.seed + 1).random(problem.shape) < 0.5 if problem.masked else None
    result = build_plan(job, source, device, options.timeout)(x, mask)
    first = result[0] if isinstance(result, tuple) else result
    types = ", ".join(element.name for element in problem.results)
    if options.output:
        save(np.stack(result) if isinstance(result, tuple) else result, options.output)
    if problem.is_empty:
        print(f"result {first.shape} {types}: the array is empty, so nothing ran and nothing was checked")
        return 0
    found = compare(x, result, job, mask)
    where = device.driver_for(x.nbytes) if device.is_local else f"{device.target}, {device.detail}"
    print(f"{device.name} ({where}): result {first.shape} {types}, {_verdict(found)}")
    return 0 if found.right else 1


def verify_command(options: Options) -> int:
    shape, element = parse_shape(options.shape)
    problem = _problem(options, shape, element)
    job, source = make_job(problem, options.tuning, find_target(options.target), options.strategy)
    near = "the reference's bits" if is_exact(problem, job.target) else "near the reference"
    held, results = (" and ".join(element.name for element in elements) for elements in (problem.accumulators, problem.results))
    print(f"problem   {problem}; accumulated in {held}, result {results}, {near}")
    print(f"loops     {loop_names(problem)}")
    if job.tuning is None or job.layout is None:
        print(f"tuning    {source}")
        return 0
    fields = ", ".join(f"{key} {value}" for key, value in job.tuning.to_dict().items())
    print(f"tuning    {fields} ({source})")
    print(f"layout    {_figures(job.layout, job)}")
    return 0


def explain_command(options: Options) -> int:
    job, source = make_job(_problem(options, *parse_shape(options.shape)), options.tuning, find_target(options.target), options.strategy)
    print(build_plan(job, source, timeout=options.timeout).explain())
    return 0


def devices_command(options: Options) -> int:
    """One line for each device: its name, IREE's driver, target, subgroup sizes, and whether it is usable or why not; then the default."""
    rows = [("NAME", "DRIVER", "TARGET", "SUBGROUP", "STATUS")]
    for found in list_devices():
        device = found.device
        if device is None:
            rows.append((found.name, found.name, "-", "-", f"not usable: {found.reason}"))
            continue
        sizes = find_target(device.target).subgroup_sizes
        drivers = "/".join(dict.fromkeys(device.drivers))
        usable = f"usable{', in software, where it is named' if device.is_software else ''}: {device.detail}"
        rows.append((found.name, drivers, device.target, "/".join(map(str, sizes)) if sizes else "any", usable))
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    for row in rows:
        print("  ".join([*(cell.ljust(width) for cell, width in zip(row[:4], widths, strict=True)), row[4]]))
    try:
        print(f"Where no device is named: {find_device().name}")
    except (InputError, DeviceError) as e:
        print(f"Where no device is named: none, as ${ENVIRONMENT} names one that can't be used: {e}")
    return 0


def bench_command(options: Options) -> int:
    from .cli_bench import bench_command as bench  # only here: the others don't need it

    return bench(options)


COMMANDS = {
    "compile": compile_command,
    "run": run_command,
    "verify": verify_command,
    "explain": explain_command,
    "devices": devices_command,
    "bench": bench_command,
}


def _problem(options: Options, shape: tuple[int, ...], element: ElementType) -> Problem:
    given = (
        options.op,
        options.axis,
        options.keepdims,
        options.dtype,
        options.initial,
        options.ddof,
        options.map,
        options.finalize,
        options.where,
    )
    return Problem.of(shape, element, *given)


def _plan(options: Options, job: Job, source: str) -> Plan:
    if options.dump_dir is None or job.problem.is_empty:
        return build_plan(job, source, timeout=options.timeout)
    artifact = compiler.compile_job(job, options.timeout, options.dump_dir)  # the files come of compiling only
    cache.store(cache.key(job), artifact)
    return Plan(job, source, artifact)


def _verdict(found: Comparison) -> str:
    within = "within" if found.difference <= found.tolerance else "ABOVE"
    bound = f" ({within} the {found.tolerance:.3g} that rounding allows)" if np.isfinite(found.tolerance) else ""
    difference = f"largest difference from NumPy {found.difference:.3g}{bound}, "
    if found.units is None:
        return f"{difference}no reference: IREE without a tuning sums in an order of its own"
    if not found.exact and found.units:
        near = "near" if found.right else "FAR from"
        return f"{difference}{near} the reference: {found.units:.3g} units in the last place, of {found.allowed:.3g} allowed"
    return f"{difference}{'equal to' if found.equal else 'DIFFERENT from'} the reference bit for bit"


def _figures(layout: Layout, job: Job) -> str:
    tile = layout.columns
    tail = f", the last one partial ({tile.remainder} elements)" if layout.column_tail else ""
    unrolled = f", {layout.unroll} at a time" if layout.unroll > 1 else ""
    factors = f"{counted(tile.subgroups, 'subgroup')} x {counted(tile.lanes, 'lane')} x {counted(tile.elements, 'element')}"
    parts = [f"{counted(layout.steps, 'step')} of {counted(tile.size, 'element')} of K ({factors}){unrolled}{tail}"]
    if layout.pieces > 1:
        length = layout.piece_steps * tile.size
        parts.append(
            f"K in {layout.pieces} pieces of {counted(layout.piece_steps, 'step')}, {length} elements, whose results a second kernel merges"
        )
    parts.append(counted(math.prod(layout.workgroups), "workgroup"))
    for name, kept in layout.kept.items():
        noun = "row" if name == ROWS else "inner element"
        partial = ", the last one overlapping" if kept.remainder else ""
        parts.append(
            f"{counted(kept.count, 'tile')} of {counted(kept.size, noun)} ({counted(kept.subgroups, 'subgroup')} x "
            f"{counted(kept.lanes, 'lane')} x {counted(kept.elements, noun)}){partial}"
        )
    held = " and ".join(element.name for element in job.problem.accumulators)
    parts.append(f"{counted(layout.accumulators, 'accumulator')} a lane, of {held}")
    if job.target.is_gpu:
        parts.append(f"{layout.workgroup_size} threads in subgroups of {layout.subgroup_size}")
        parts.append(f"{layout.shared_memory_bytes} bytes of shared memory")
    return "; ".join(parts)


def _summary(plan: Plan) -> str:
    lines = [f"{plan.problem} for {plan.target.name}, strategy {plan.strategy}"]
    if plan.tuning is None:
        lines.append(f"tuning {plan.tuning_source}")
    else:
        lines.append(f"tuning {plan.tuning_source}: {plan.tuning.to_json()} ({product(plan.tuning)})")
    lines += [_dispatch(entry) for entry in plan.report["dispatches"]]
    return "\n".join([*lines, *([plan.report["note"]] if "note" in plan.report else [])])


def _dispatch(entry: dict[str, Any]) -> str:
    """One dispatch in one line; figures that the target doesn't have are left out."""
    count, size, barriers = entry["workgroup_count"], entry["workgroup_size"], entry["barriers"]
    parts = [f"workgroups {'x'.join('?' if n is None else str(n) for n in count)}"]
    if size is not None:
        parts.append(f"threads {'x'.join(map(str, size))}")
    for key, name in (
        ("subgroup_size", "subgroup size"),
        ("bindings", "bindings"),
        ("shared_memory_bytes", "shared memory"),
        ("vgprs", "VGPRs"),
        ("sgprs", "SGPRs"),
        ("spills", "spills"),
    ):
        if entry[key] is not None:
            parts.append(f"{name} {entry[key]}")
    if barriers is not None:
        parts.append(f"barriers {barriers['in_loop']} in the loop and {barriers['outside']} outside")
    for key, name in (("lane_ops", "lane operations"), ("wide_loads", "loads")):
        if entry[key] is not None:
            parts.append(f"{name} {' + '.join(f'{n} {kind}' for kind, n in entry[key].items() if n) or 'none'}")
    if entry["loads_in_flight"] is not None:
        parts.append(f"{entry['loads_in_flight']} of them in flight at once")
    return f"{entry['kernel']}: {', '.join(parts)}"
