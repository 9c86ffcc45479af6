"""What is done to the values: the op's element step, its combining, its identity and its last step, on vectors and scalars alike.

Values are tuples: one entry for each accumulator of the op.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from iree.compiler import ir
from iree.compiler.dialects import arith, vector

from ..mlir import binary, cast, constant, splat
from ..problem import Problem
from ..targets import Target

Values = tuple[ir.Value, ...]


def prepare(problem: Problem, x: ir.Value) -> Values:
    """The elements as read -> what joins the accumulators."""
    return (cast(cast(x, problem.input, problem.loop_type), problem.loop_type, problem.accumulator),)


def identity(problem: Problem, length: int) -> Values:
    """A vector of what changes nothing."""
    return (splat(problem.op.identity(problem.accumulator), length, problem.accumulator),)


def start(problem: Problem, length: int) -> Values:
    """A vector of what the accumulators start from."""
    return (splat(problem.start, length, problem.accumulator),)


def combine(problem: Problem, target: Target, a: Values, b: Values) -> Values:
    name = _exact(problem.op.mlir(problem.accumulator), target)
    return tuple(binary(name, left, right) for left, right in zip(a, b, strict=True))


def _exact(name: str, target: Target) -> str:
    """IREE lowers `maximumf` for ROCm and CUDA to an instruction that ignores NaN (ReplaceSlowMinMaxOps); LLVM's intrinsic does not."""
    replaced = {"arith.maximumf": "llvm.intr.maximum", "arith.minimumf": "llvm.intr.minimum"}
    return replaced.get(name, name) if target.backend in ("hip", "cuda") else name


def fold(problem: Problem, target: Target, values: Sequence[Values]) -> Values:
    """Combines in ascending order."""
    return functools.reduce(functools.partial(combine, problem, target), values)


def finish(problem: Problem, target: Target, total: Values) -> ir.Value:
    """Scalars: the accumulators' total -> the result, `initial` joined in the accumulator's type, rounded once."""
    (value,) = total
    if problem.epilogue_initial is not None:
        initial = constant(problem.epilogue_initial, problem.accumulator)
        if target.backend == "vulkan" and problem.op.name in _IN_PLACE and problem.accumulator.is_float:
            value = _in_its_place(_IN_PLACE[problem.op.name], initial, value)
        else:
            (value,) = combine(problem, target, (initial,), total)
    return cast(value, problem.accumulator, problem.result)


_IN_PLACE = {"sum": "spirv.FAdd", "prod": "spirv.FMul"}


def _in_its_place(name: str, a: ir.Value, b: ir.Value) -> ir.Value:
    """The op with SPIR-V's NoContraction: without it drivers move known terms and factors to other places of a chain (llvmpipe does)."""
    return ir.Operation.create(name, results=[a.type], operands=[a, b], attributes={"no_contraction": ir.UnitAttr.get()}).result


def select(condition: ir.Value, a: Values, b: Values) -> Values:
    """Elementwise; the condition is a vector of the same length, or a scalar for scalars."""
    return tuple(arith.SelectOp(condition, left, right).result for left, right in zip(a, b, strict=True))


def extract(values: Values, position: int) -> Values:
    return tuple(vector.ExtractOp(value, [], [position]).result for value in values)


def cut(values: Values, first: int, length: int) -> Values:
    """Part of the vectors."""
    return tuple(vector.ExtractStridedSliceOp(_vector(value, length), value, [first], [length], [1]).result for value in values)


def replace(values: Values, part: Values, first: int) -> Values:
    """The vectors with `part` in its place."""
    return tuple(vector.InsertStridedSliceOp(new, value, [first], [1]).result for new, value in zip(part, values, strict=True))


def _vector(value: ir.Value, length: int) -> ir.Type:
    return ir.VectorType.get([length], ir.VectorType(value.type).element_type)
