"""The dispatch: the reduction as IREE sees it, `linalg.fill` + `linalg.generic` on the canonical loops, in `@reduce`.

It is built canonical (parallel loop first, the reduced loop last, no extent of 1), because IREE drops attributes on an op
whose loops it collapses. Each op is marked with its stage; the schedule finds the reduction by that marker alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iree.compiler import ir
from iree.compiler.dialects import flow, func, linalg, tensor

from .element_types import ElementType
from .expressions import Value, Values
from .expressions_mlir import MlirBackend, loaded, stored
from .job import Job
from .loops import K
from .mlir import affine_map, constant, element_type, tensor_type
from .problem import Problem

STAGE = "iree_reduce.stage"  # the marker's name; a schedule selects by it
WORKGROUPS = "workgroups"  # the stage of the loop over workgroups

Scalars = Sequence[ir.Value]


def build_dispatch(job: Job) -> ir.Module:
    """`func.func @reduce(tensor<rows x K>) -> tensor<rows>` in the current context, with the tuning as attributes for `iree`."""
    problem = job.problem
    module = ir.Module.create(ir.Location.unknown())
    with ir.InsertionPoint(module.body), ir.Location.unknown():
        rows = [d.extent for d in problem.memory if d.loop != K]
        source = tensor_type(problem.memory_shape, problem.input)

        @func.FuncOp.from_py_func(source, name="reduce")
        def reduce(x: ir.Value) -> ir.Value:
            if problem.columns == 1:
                return _epilogue(problem, x, rows, reduced=False)
            if not problem.has_epilogue:
                return _reduction(problem, x, rows)
            if job.strategy == "default":
                return _epilogue(problem, _reduction(problem, x, rows), rows, reduced=True)
            # IREE would put the epilogue of a 1-D reduction into a dispatch of its own.
            region = flow.DispatchRegionOp([tensor_type(rows, problem.result)], [], [])
            with ir.InsertionPoint(region.body.blocks.append()):
                flow.ReturnOp([_epilogue(problem, _reduction(problem, x, rows), rows, reduced=True)])
            return region.results[0]

    if job.target.description is not None:
        module.operation.attributes["hal.device.targets"] = ir.Attribute.parse(f"[{job.target.description}]")
    if job.strategy == "iree" and job.tuning is not None:
        _attach(module, job.tuning.to_attribute("current"))
    return module


def _reduction(problem: Problem, x: ir.Value, rows: list[int]) -> ir.Value:
    start = constant(problem.start, problem.accumulator)
    empty = tensor.EmptyOp(rows, element_type(problem.accumulator)).result
    filled = linalg.fill(start, outs=[empty])

    def combine(scalars: Scalars) -> ir.Value:
        backend = MlirBackend(in_two=True)
        held, x = Value(scalars[1], problem.accumulator, backend), _element(problem, scalars[0])
        (total,) = problem.op.step((held,), Value(x.raw, x.element, backend))
        return total.raw

    # The loops: the kept ones, then the reduced ones, each in the order of memory.
    kept = [i for i, d in enumerate(problem.memory) if d.loop != K]
    reduced = [i for i, d in enumerate(problem.memory) if d.loop == K]
    order, loops = [*kept, *reduced], len(problem.memory)
    maps = [affine_map(loops, [order.index(i) for i in range(loops)]), affine_map(loops, range(len(kept)))]
    iterators = ["parallel"] * len(kept) + ["reduction"] * len(reduced)
    return _generic(x, filled, maps, iterators, combine, "reduction")


def _epilogue(problem: Problem, value: ir.Value, rows: list[int], reduced: bool) -> ir.Value:
    """Joins `initial` to the total, finishes it, and rounds once to the result's type. Without a reduced loop it reads the input."""
    if reduced and not problem.has_epilogue:
        return value
    initial = problem.epilogue_initial if reduced else problem.initial
    empty = tensor.EmptyOp(rows, element_type(problem.result)).result
    maps = [affine_map(len(rows), range(len(rows)))] * 2

    def finish(scalars: Scalars) -> ir.Value:
        backend, kind = MlirBackend(), problem.accumulator
        joined = None if initial is None else problem.op.join(_constant(initial, problem.computed, backend))
        if reduced:
            totals: Values = (Value(scalars[0], kind, backend),)
            totals = totals if joined is None else problem.op.combine(joined, totals)
        else:
            totals = problem.op.alone(_element(problem, scalars[0]), joined)
        return stored(problem.op.finish(totals, problem.about).cast(problem.result))

    return _generic(value, empty, maps, ["parallel"] * len(rows), finish, "epilogue")


def _element(problem: Problem, scalar: ir.Value) -> Value:
    """What is read of the array, in the type that it is computed in."""
    return loaded(scalar, problem.input).cast(problem.loop_type).cast(problem.computed)


def _constant(value: object, element: ElementType, backend: MlirBackend) -> Value:
    return Value(constant(value, element), element, backend)


def _generic(
    source: ir.Value,
    target: ir.Value,
    maps: list[ir.AffineMap],
    iterators: list[str],
    body: Callable[[Scalars], ir.Value],
    stage: str,
) -> ir.Value:
    op = linalg.GenericOp(
        [target.type],
        [source],
        [target],
        ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in maps]),
        ir.ArrayAttr.get([ir.Attribute.parse(f"#linalg.iterator_type<{i}>") for i in iterators]),
    )
    op.operation.attributes[STAGE] = ir.StringAttr.get(stage)
    types = [ir.RankedTensorType(v.type).element_type for v in (source, target)]
    block = op.regions[0].blocks.append(*types)
    with ir.InsertionPoint(block):
        linalg.YieldOp([body(list(block.arguments))])
    return op.results[0]


def _attach(module: ir.Module, compilation_info: str) -> None:
    """The tuning as `compilation_info` on the reduction, for IREE's own pipeline."""
    for op in module.body.operations[0].regions[0].blocks[0].operations:
        if STAGE in op.attributes and ir.StringAttr(op.attributes[STAGE]).value == "reduction":
            op.attributes["compilation_info"] = ir.Attribute.parse(compilation_info)
