"""The cells of the matrix that a target gets, and one of them run on a device: for the tests, and for `tools/gpu_check.py`."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import matrix
import numpy as np
from matrix import Cell, make_data, near_numpy, unsigned_zeros

from iree_reduce_plugin.compare import allowed_units, same_bits, size_of_terms, units_apart
from iree_reduce_plugin.devices import Device, find_device
from iree_reduce_plugin.errors import InputError
from iree_reduce_plugin.exactness import is_exact
from iree_reduce_plugin.job import Job
from iree_reduce_plugin.ops import OPS
from iree_reduce_plugin.plan import Plan, build_plan, make_job
from iree_reduce_plugin.reference import as_matrix, tree
from iree_reduce_plugin.targets import find_target

SEEDS = (
    Cell((4096,), "f32", "sum", {"workgroup": [0], "reduction": [1024], "lane_basis": [[64], [0]], "subgroup_basis": [[4], [0]]}),
    Cell(
        (4, 4096),
        "f32",
        "sum",
        {"workgroup": [4, 0], "reduction": [0, 256], "lane_basis": [[4, 16], [0, 1]], "subgroup_basis": [[1, 4], [0, 1]]},
    ),
)


def limits(target: str) -> tuple[int, int | None]:
    """The subgroup size that the cells are made for, and how many subgroups a workgroup has; on the CPU any number."""
    found = find_target(target)
    size = min(found.subgroup_sizes or (64,))
    return size, (found.max_threads or 0) // size if found.is_gpu else None


@functools.cache
def cover(target: str) -> list[Cell]:
    """Cells that have every possible pair of choices together."""
    size, most = limits(target)
    choices = matrix.pairwise(matrix.FACTORS, functools.partial(matrix.fits, subgroup_size=size, max_subgroups=most))
    seeds = SEEDS if size == 64 else ()
    cells = [*seeds, *(matrix.cell(choice, size) for choice in choices)]
    return [cell for cell in cells if supported(cell, target)]


def supported(cell: Cell, target: str) -> bool:
    """Vulkan refuses logarithms of f64, by name."""
    try:
        make_job(cell.problem, cell.tuning, find_target(target))
    except InputError as e:
        if "is not supported" in str(e) and target.startswith("vulkan"):
            return False
        raise
    return True


def small(target: str) -> Iterator[Cell]:
    """Nothing to reduce, or nothing at all: one column, no column, no row, with and without what joins the result."""
    dtypes = [name for names in matrix.TYPES.values() for name in names]
    shapes = [(1,), (1, 1), *((rows, 1) for rows in matrix.MANY_ROWS), (0,), *((rows, 0) for rows in (0, 1, 5)), (0, 7), (0, 4096)]
    for i, shape in enumerate(shapes):
        compiled = 0 not in shape
        for j, op in enumerate(tuple(OPS)[i % 3 :: 3] if compiled else tuple(OPS)):  # a third of what takes time
            if OPS[op].empty == "error" and not OPS[op].takes_initial and 0 in shape[-1:]:
                continue
            dtype = dtypes[(5 * i + j) % len(dtypes)]
            if op.startswith("bitwise") and dtype.startswith(("f", "bf")):
                dtype = "ui8"
            # Without an initial value NumPy refuses an empty maximum.
            initial, out = matrix.joins(op, dtype, (i + j) % 2 == 0 or (not compiled and OPS[op].empty == "error"), (i + j) % 3 == 0)
            cell = Cell(shape, dtype, op, None, "random", initial, out)
            if supported(cell, target):
                yield cell


def same_on_cpu(job: Job, source: str) -> Plan:
    """The same problem and tuning, a default included, on the CPU."""
    job, source = make_job(job.problem, job.tuning, find_target("cpu"))
    return build_plan(job, source, find_device("cpu"))


def without_subnormals(a: Any, b: Any) -> tuple[Any, Any]:
    """Two results without what is subnormal in f32, where one is the CPU's, which makes zeros of them."""
    if a.dtype.kind in "iub":
        return a, b
    tiny = (np.abs(a.astype("f8")) < np.finfo("f4").smallest_normal) & (np.abs(b.astype("f8")) < np.finfo("f4").smallest_normal)
    return np.where(tiny, np.zeros_like(a), a), np.where(tiny, np.zeros_like(b), b)


def trouble(device: Device, cell: Cell) -> str | None:
    """What is wrong with the cell's result on the device, in a line; None where nothing is."""
    problem = cell.problem
    job, source = make_job(problem, cell.tuning, find_target(device.target))
    plan = build_plan(job, source, device)
    x = make_data(problem, cell.data, job.layout)
    result = plan(x)
    expected = tree(as_matrix(x, problem), problem, job.layout).reshape(problem.kept_shape)
    on_cpu = expected if device.is_local else same_on_cpu(job, source)(x)
    if device.name == "vulkan":  # drivers fold 0.0 + x to x, and choose between zeros as they like: llvmpipe does both
        result, expected, on_cpu = unsigned_zeros(result), unsigned_zeros(expected), unsigned_zeros(on_cpu)
    if units_apart(result, expected, size_of_terms(as_matrix(x, problem), problem)) > allowed_units(job):
        return f"{job}: {result.ravel()[:4]} is not {expected.ravel()[:4]}"
    if is_exact(problem, job.target) and not same_bits(*without_subnormals(result, on_cpu)):
        return f"{job}: {result.ravel()[:4]} is not the CPU's {on_cpu.ravel()[:4]}"
    several = len(problem.accumulators) > 1  # whose reference is compared with NumPy's in tests/test_ops_of_several.py
    if not (problem.is_empty or several or near_numpy(result, x, problem, job.layout)):
        return f"{job}: {result.ravel()[:4]} is far from NumPy's"
    return None
