"""Expressions as MLIR: what the dispatch's bodies and the schedule's combine functions are built from.

A value is an `ir.Value` of a scalar or of a vector, which computes element by element. Integers have no sign in MLIR, so that the op
says it; a bool is an `i1`, and a byte where it is stored.
"""

from __future__ import annotations

from typing import Any

from iree.compiler import ir
from iree.compiler.dialects import arith, vector

from .element_types import ElementType
from .expressions import LIBRARY, Value
from .expressions_trace import Trace
from .mlir import element_type, scalar_attribute
from .problem import Problem
from .small_floats import FORMATS, decoded, encoded
from .targets import Target

_FLOAT_OPS = {
    "add": "arith.addf",
    "sub": "arith.subf",
    "mul": "arith.mulf",
    "div": "arith.divf",
    "neg": "arith.negf",
    "abs": "math.absf",
    "sqrt": "math.sqrt",
    "floor": "math.floor",
    "ceil": "math.ceil",
    "trunc": "math.trunc",
    "rint": "math.roundeven",
    **{name: f"math.{name}" for name in LIBRARY},
    "fma": "math.fma",
    "minimum": "arith.minimumf",
    "maximum": "arith.maximumf",
}
_INTEGER_OPS = {
    "add": "arith.addi",
    "sub": "arith.subi",
    "mul": "arith.muli",
    "abs": "math.absi",
    "and": "arith.andi",
    "or": "arith.ori",
    "xor": "arith.xori",
}
_SIGNED_OPS = {"minimum": "arith.minsi", "maximum": "arith.maxsi", "shr": "arith.shrsi"}
_UNSIGNED_OPS = {"minimum": "arith.minui", "maximum": "arith.maxui", "shr": "arith.shrui"}
# IREE lowers `maximumf` for ROCm and CUDA to an instruction that ignores NaN (its ReplaceSlowMinMaxOps); LLVM's intrinsic does not.
_SPIRV = {"arith.addf": "spirv.FAdd", "arith.mulf": "spirv.FMul"}
_EXACT = {"arith.maximumf": "llvm.intr.maximum", "arith.minimumf": "llvm.intr.minimum"}


class MlirBackend:
    """Builds at the current insertion point.

    target: None in the dispatch, which is the same for all.
    in_place: sums and products of floats stay where they are. Vulkan's drivers move known terms and factors to other places of a chain
        (llvmpipe does) unless SPIR-V's NoContraction says otherwise.
    in_two: `fma` is a product and a sum: IREE's own pipelines take a reduction apart only where it ends in an op that they know.
    """

    def __init__(self, target: Target | None = None, in_two: bool = False, in_place: bool = False):
        self.target, self.in_two, self.in_place = target, in_two, in_place

    def apply(self, name: str, operands: list[ir.Value], element: ElementType) -> ir.Value:
        if name in _PREDICATES:
            return _compare(name, operands, element)
        if name == "fma" and (self.in_two or not element.is_float):
            return self._fma_in_two(operands, element)
        if name == "neg" and not element.is_float:
            return _op("arith.subi", [self.constant(0, element, operands[0]), *operands])
        found = op_name(name, element)
        if self.target is not None and self.target.backend in ("hip", "cuda"):
            found = _EXACT.get(found, found)
        if self.target is not None and self.target.backend == "vulkan" and self.in_place and found in _SPIRV:
            return _op(_SPIRV[found], operands, no_contraction=ir.UnitAttr.get())
        return _op(found, operands)

    def _fma_in_two(self, operands: list[ir.Value], element: ElementType) -> ir.Value:
        a, b, c = operands
        return _op(op_name("add", element), [_op(op_name("mul", element), [a, b]), c])

    def constant(self, value: Any, element: ElementType, like: ir.Value) -> ir.Value:
        kind = computed_type(element)
        attribute = ir.IntegerAttr.get(kind, int(bool(value))) if element.is_bool else scalar_attribute(value, element)
        scalar = arith.ConstantOp(kind, attribute).result
        if not isinstance(like.type, ir.VectorType):
            return scalar
        return vector.BroadcastOp(_shaped(element, like), scalar).result

    def select(self, condition: ir.Value, a: ir.Value, b: ir.Value, element: ElementType) -> ir.Value:
        return arith.SelectOp(condition, a, b).result

    def cast(self, value: ir.Value, source: ElementType, target: ElementType) -> ir.Value:
        if target.is_bool:
            return _compare("ne", [value, self.constant(0, source, value)], source)
        if source.name in FORMATS:
            return decoded(Value(_op("arith.extui", [value], result=_shaped(_UI32, value)), _UI32, self), source).cast(target).raw
        if target.name in FORMATS:
            code = encoded(Value(value, source, self).cast(_F32), target).raw
            return _op("arith.trunci", [code], result=_shaped(target, code))
        if {source.name, target.name} == {"f16", "bf16"}:  # neither holds the other: round from f32
            return Value(value, source, self).cast(_F32).cast(target).raw
        name = _cast_name(source, target)
        return value if name is None else _op(name, [value], result=_shaped(target, value))

    def bitcast(self, value: ir.Value, source: ElementType, target: ElementType) -> ir.Value:
        return _op("arith.bitcast", [value], result=_shaped(target, value))


def op_name(name: str, element: ElementType) -> str:
    """MLIR's op for a function of `expressions`.

    >>> op_name("maximum", ElementType("ui8")), op_name("add", ElementType("f32"))
    ('arith.maxui', 'arith.addf')
    """
    if element.is_float:
        return _FLOAT_OPS[name]
    return (_UNSIGNED_OPS if element.is_unsigned or element.is_bool else _SIGNED_OPS).get(name) or _INTEGER_OPS[name]


def computed_type(element: ElementType) -> ir.Type:
    """The type that values are computed in: a bool's is `i1`, the others' that of their storage."""
    return ir.IntegerType.get_signless(1) if element.is_bool else element_type(element)


def loaded(raw: ir.Value, element: ElementType, target: Target | None = None) -> Value:
    """What memory holds as a value: any byte but 0 is true."""
    backend = MlirBackend(target)
    if element.is_bool:
        byte = ElementType("ui8")
        raw = _compare("ne", [raw, backend.constant(0, byte, raw)], byte)
    return Value(raw, element, backend)


def stored(value: Value) -> ir.Value:
    """A value as memory holds it."""
    return _op("arith.extui", [value.raw], result=_shaped(ElementType("ui8"), value.raw)) if value.element.is_bool else value.raw


def combining_op(problem: Problem) -> str | None:
    """The one MLIR op that combines two accumulators, e.g. `arith.addf`; None where it takes more than one."""
    if len(problem.accumulators) > 1:
        return None
    a, b = (Trace.input(name, problem.accumulator) for name in "ab")
    (total,) = problem.op.combine((a,), (b,))
    return op_name(total.raw.name, problem.accumulator) if total.raw.operands == (a.raw, b.raw) else None


_UI32, _F32 = ElementType("ui32"), ElementType("f32")
_PREDICATES = {
    "eq": (arith.CmpFPredicate.OEQ, arith.CmpIPredicate.eq, arith.CmpIPredicate.eq),
    "ne": (arith.CmpFPredicate.UNE, arith.CmpIPredicate.ne, arith.CmpIPredicate.ne),
    "lt": (arith.CmpFPredicate.OLT, arith.CmpIPredicate.slt, arith.CmpIPredicate.ult),
    "le": (arith.CmpFPredicate.OLE, arith.CmpIPredicate.sle, arith.CmpIPredicate.ule),
    "gt": (arith.CmpFPredicate.OGT, arith.CmpIPredicate.sgt, arith.CmpIPredicate.ugt),
    "ge": (arith.CmpFPredicate.OGE, arith.CmpIPredicate.sge, arith.CmpIPredicate.uge),
}


def _compare(name: str, operands: list[ir.Value], element: ElementType) -> ir.Value:
    of_floats, signed, unsigned = _PREDICATES[name]
    if element.is_float:
        return arith.CmpFOp(of_floats, *operands).result
    return arith.CmpIOp(unsigned if element.is_unsigned or element.is_bool else signed, *operands).result


def _cast_name(source: ElementType, target: ElementType) -> str | None:
    """None where the two are the same to MLIR."""
    unsigned = source.is_unsigned or source.is_bool
    if source.is_float and target.is_float:
        return "arith.extf" if source.bits < target.bits else "arith.truncf"
    if source.is_float:
        return "arith.fptoui" if target.is_unsigned else "arith.fptosi"
    if target.is_float:
        return "arith.uitofp" if unsigned else "arith.sitofp"
    bits = 1 if source.is_bool else source.bits
    if bits == target.bits:
        return None
    return "arith.trunci" if bits > target.bits else "arith.extui" if unsigned else "arith.extsi"


def _shaped(element: ElementType, like: ir.Value) -> ir.Type:
    kind = computed_type(element)
    return ir.VectorType.get(ir.VectorType(like.type).shape, kind) if isinstance(like.type, ir.VectorType) else kind


def _op(name: str, operands: list[ir.Value], result: ir.Type | None = None, **attributes: ir.Attribute) -> ir.Value:
    kind = operands[0].type if result is None else result
    return ir.Operation.create(name, results=[kind], operands=operands, attributes=attributes).result
