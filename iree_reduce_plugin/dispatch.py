"""The dispatch: the reduction as IREE sees it, `linalg.fill` + `linalg.generic` on the canonical loops, in `@reduce`.

It is built canonical (parallel loop first, the reduced loop last, no extent of 1), because IREE drops attributes on an op
whose loops it collapses. Each op is marked with its stage; the schedule finds the reduction by that marker alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from iree.compiler import ir
from iree.compiler.dialects import affine, arith, flow, func, linalg, tensor

from .element_types import ElementType
from .expressions import Value, Values
from .expressions_mlir import MlirBackend, loaded, stored
from .job import Job
from .layout import Layout
from .loops import K
from .mlir import affine_map, constant, element_type, tensor_type
from .op import I64
from .problem import Problem

STAGE = "iree_reduce.stage"  # the marker's name; a schedule selects by it
WORKGROUPS = "workgroups"  # the stage of the loop over workgroups

Scalars = Sequence[ir.Value]


def build_dispatch(job: Job) -> ir.Module:
    """`func.func @reduce(tensor<rows x K>) -> tensor<rows>` in the current context, with the tuning as attributes for `iree`."""
    problem = job.problem
    module = ir.Module.create(ir.Location.unknown())
    with ir.InsertionPoint(module.body), ir.Location.unknown():
        rows = [d.extent for d in problem.result_memory]
        sources = [tensor_type(problem.memory_shape, element) for element in problem.inputs]

        @func.FuncOp.from_py_func(*sources, name="reduce")
        def reduce(*x: ir.Value) -> ir.Value | list[ir.Value]:
            if problem.columns == 1:
                return _epilogue(problem, x, rows, reduced=False)
            if not job.has_schedule:
                return _results(problem, problem, x, rows, "reduction")
            *first, last = job.parts
            if not first and not problem.has_epilogue:
                return _results(problem, problem, x, rows, last.stage)
            read: Scalars = x
            for part in first:
                read = _region(part.problem, functools.partial(_pieces, part.problem, part.layout, read))
            # IREE would put the epilogue of a 1-D reduction into a dispatch of its own.
            return _region(problem, lambda: _results(last.problem, problem, read, rows, last.stage))

    if job.target.description is not None:
        module.operation.attributes["hal.device.targets"] = ir.Attribute.parse(f"[{job.target.description}]")
    if job.strategy == "iree" and job.tuning is not None:
        _attach(module, job.tuning.to_attribute("current"))
    return module


def _region(problem: Problem, body: Callable[[], list[ir.Value]]) -> list[ir.Value]:
    """What `body` gives, the problem's results, as one dispatch."""
    rows = [d.extent for d in problem.result_memory]
    region = flow.DispatchRegionOp([tensor_type(rows, result) for result in problem.results], [], [])
    with ir.InsertionPoint(region.body.blocks.append()):
        flow.ReturnOp(body())
    return list(region.results)


def _results(reduced: Problem, problem: Problem, x: Scalars, rows: list[int], stage: str) -> list[ir.Value]:
    """The problem's results, of what is `reduced`: itself, or the accumulators of its pieces."""
    totals = _reduction(reduced, x, rows, stage)
    if problem.has_epilogue:
        return _epilogue(problem, totals, rows, reduced=True)
    return [totals[i] for i in problem.taken or ()]


def _pieces(problem: Problem, layout: Layout, x: Scalars) -> list[ir.Value]:
    """The accumulators of each piece of K. Written with no bounds that depend on the piece: each passes over all of K, and joins its own.

    So the kernel that takes its place need not be told what it is.
    """
    results = problem.result_memory
    kept = [d for d in problem.memory if d.loop != K]
    order = [("kept", kept.index(d)) if d in kept else ("piece", 0) for d in results]
    order += [("reduced", i) for i, d in enumerate(problem.memory) if d.loop == K]
    loops = {where: i for i, where in enumerate(order)}
    read = [loops["kept", kept.index(d)] if d.loop != K else loops["reduced", i] for i, d in enumerate(problem.memory)]
    filled = _filled(problem, [d.extent for d in results])

    def combine(scalars: Scalars) -> list[ir.Value]:
        held, new = _joined(problem, scalars, len(x), first_reduced=len(results))
        column = _column(problem, len(results))
        piece = arith.MinSIOp(arith.DivSIOp(column, _i64(layout.piece_steps * layout.columns.size)).result, _i64(layout.pieces - 1)).result
        number = linalg.IndexOp(ir.IntegerAttr.get(ir.IntegerType.get_signless(64), loops["piece", 0])).result
        own = arith.CmpIOp(arith.CmpIPredicate.eq, piece, arith.IndexCastOp(piece.type, number).result).result
        return [arith.SelectOp(own, a.raw, b.raw).result for a, b in zip(new, held, strict=True)]

    maps = [affine_map(len(order), read)] * len(x) + [affine_map(len(order), range(len(results)))] * len(filled)
    iterators = ["parallel"] * len(results) + ["reduction"] * (len(order) - len(results))
    return _generic(x, filled, maps, iterators, combine, "pieces")


def _i64(value: int) -> ir.Value:
    return constant(value, I64)


def _filled(problem: Problem, extents: list[int]) -> list[ir.Value]:
    """Tensors of what the accumulators start from."""
    starts = [problem.start, *problem.op.identity(problem.accumulators)[1:]]
    return [
        linalg.fill(constant(value, element), outs=[tensor.EmptyOp(extents, element_type(element)).result])
        for value, element in zip(starts, problem.accumulators, strict=True)
    ]


def _joined(problem: Problem, scalars: Scalars, inputs: int, first_reduced: int) -> tuple[Values, Values]:
    """In a body: the accumulators as they were, and with one element more."""
    backend = MlirBackend(in_two=True)
    read, totals = scalars[:inputs], scalars[inputs:]
    held = tuple(Value(scalar, element, backend) for scalar, element in zip(totals, problem.accumulators, strict=True))
    values = tuple(Value(value.raw, value.element, backend) for value in _elements(problem, read))
    column = Value(_column(problem, first_reduced), I64, backend) if problem.takes_index else None
    return held, problem.step(held, values, column)


def _reduction(problem: Problem, x: Scalars, rows: list[int], stage: str) -> list[ir.Value]:
    """The accumulators of each result."""
    filled = _filled(problem, rows)

    def combine(scalars: Scalars) -> list[ir.Value]:
        _, new = _joined(problem, scalars, len(x), first_reduced=len(rows))
        return [total.raw for total in new]

    # The loops: the kept ones, then the reduced ones, each in the order of memory.
    kept = [i for i, d in enumerate(problem.memory) if d.loop != K]
    reduced = [i for i, d in enumerate(problem.memory) if d.loop == K]
    order, loops = [*kept, *reduced], len(problem.memory)
    maps = [affine_map(loops, [order.index(i) for i in range(loops)])] * len(x) + [affine_map(loops, range(len(kept)))] * len(filled)
    iterators = ["parallel"] * len(kept) + ["reduction"] * len(reduced)
    return _generic(x, filled, maps, iterators, combine, stage)


def _column(problem: Problem, first: int) -> ir.Value:
    """The column of the element at hand, from the indices of the reduced loops. first: the first of them."""
    steps = [d.step for d in problem.memory if d.loop == K]
    expression = ir.AffineConstantExpr.get(0)
    for i, step in enumerate(steps):
        expression = expression + ir.AffineDimExpr.get(i) * step
    indices = [linalg.IndexOp(ir.IntegerAttr.get(ir.IntegerType.get_signless(64), first + i)).result for i in range(len(steps))]
    column = affine.AffineApplyOp(ir.AffineMap.get(len(steps), 0, [expression]), indices).result
    return arith.IndexCastOp(ir.IntegerType.get_signless(64), column).result


def _epilogue(problem: Problem, sources: Sequence[ir.Value], rows: list[int], reduced: bool) -> list[ir.Value]:
    """Joins `initial` to the total, finishes it, and rounds once to the result's type. Without a reduced loop it reads the inputs."""
    initial = problem.epilogue_initial if reduced else problem.initial
    empty = [tensor.EmptyOp(rows, element_type(result)).result for result in problem.results]
    maps = [affine_map(len(rows), range(len(rows)))] * (len(sources) + len(empty))

    def finish(scalars: Scalars) -> list[ir.Value]:
        backend = MlirBackend()
        joined = None if initial is None else problem.op.join(_constant(initial, problem.computed, backend))
        if reduced:
            parts = zip(scalars[: len(sources)], problem.accumulators, strict=True)
            totals: Values = tuple(Value(scalar, element, backend) for scalar, element in parts)
            totals = totals if joined is None else problem.op.combine(joined, totals)
        else:
            zero = _constant(0, I64, backend) if problem.op.takes_index else None
            totals = problem.alone(_elements(problem, scalars[: len(sources)]), joined, zero)
        return [stored(result) for result in problem.finish(totals)]

    return _generic(sources, empty, maps, ["parallel"] * len(rows), finish, "epilogue")


def _elements(problem: Problem, scalars: Scalars) -> Values:
    """What is read of the inputs."""
    return tuple(loaded(scalar, element) for scalar, element in zip(scalars, problem.inputs, strict=True))


def _constant(value: object, element: ElementType, backend: MlirBackend) -> Value:
    return Value(constant(value, element), element, backend)


def _generic(
    sources: Sequence[ir.Value],
    targets: list[ir.Value],
    maps: list[ir.AffineMap],
    iterators: list[str],
    body: Callable[[Scalars], list[ir.Value]],
    stage: str,
) -> list[ir.Value]:
    op = linalg.GenericOp(
        [target.type for target in targets],
        list(sources),
        targets,
        ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in maps]),
        ir.ArrayAttr.get([ir.Attribute.parse(f"#linalg.iterator_type<{i}>") for i in iterators]),
    )
    op.operation.attributes[STAGE] = ir.StringAttr.get(stage)
    types = [ir.RankedTensorType(v.type).element_type for v in (*sources, *targets)]
    block = op.regions[0].blocks.append(*types)
    with ir.InsertionPoint(block):
        linalg.YieldOp(body(list(block.arguments)))
    return list(op.results)


def _attach(module: ir.Module, compilation_info: str) -> None:
    """The tuning as `compilation_info` on the reduction, for IREE's own pipeline."""
    for op in module.body.operations[0].regions[0].blocks[0].operations:
        if STAGE in op.attributes and ir.StringAttr(op.attributes[STAGE]).value == "reduction":
            op.attributes["compilation_info"] = ir.Attribute.parse(compilation_info)
