"""Short names for what the builders need of IREE's Python bindings: element types, constants, maps, reads and writes.

Only the compiler's own process imports this module; everything here works in the current `ir.Context`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from iree.compiler import ir
from iree.compiler.dialects import arith, vector

from .element_types import ElementType

DYNAMIC = ir.ShapedType.get_dynamic_size()


def element_type(element: ElementType) -> ir.Type:
    """The type of its storage: integers have no sign; a bool and an 8-bit float (see `small_floats`) are bytes."""
    return ir.Type.parse(element.name) if element.is_float and element.bits > 8 else ir.IntegerType.get_signless(element.bits)


def tensor_type(shape: Sequence[int], element: ElementType) -> ir.Type:
    return ir.RankedTensorType.get(list(shape), element_type(element))


def vector_type(shape: Sequence[int], element: ElementType) -> ir.Type:
    return ir.VectorType.get(list(shape), element_type(element))


def scalar_attribute(value: Any, element: ElementType) -> ir.Attribute:
    """A typed attribute of exactly `value`, a NumPy scalar or a Python number."""
    if element.is_float:
        value = np.asarray(value, element.numpy).view(f"u{element.bytes}")
        if element.bits > 8:
            return ir.Attribute.parse(f"0x{int(value):0{element.bits // 4}X} : {element.name}")  # exact, for infinities and -0 too
    number = int(value)  # above the signed maximum, the negative one of the same bits
    return ir.IntegerAttr.get(element_type(element), number - (1 << element.bits) if number >> (element.bits - 1) > 0 else number)


def constant(value: Any, element: ElementType) -> ir.Value:
    return arith.ConstantOp(element_type(element), scalar_attribute(value, element)).result


def splat(value: Any, length: int, element: ElementType) -> ir.Value:
    """A constant vector of one value."""
    kind = vector_type([length], element)
    return arith.ConstantOp(kind, ir.DenseElementsAttr.get_splat(kind, scalar_attribute(value, element))).result


def constant_i32(value: int) -> ir.Value:
    i32 = ir.IntegerType.get_signless(32)
    return arith.ConstantOp(i32, ir.IntegerAttr.get(i32, value)).result


def index(value: int) -> ir.Value:
    return arith.ConstantOp(ir.IndexType.get(), ir.IntegerAttr.get(ir.IndexType.get(), value)).result


def binary(name: str, a: ir.Value, b: ir.Value) -> ir.Value:
    """`name` of two values of one type, e.g. `arith.addf`."""
    return ir.Operation.create(name, results=[a.type], operands=[a, b]).result


def affine_map(dims: int, results: Sequence[int]) -> ir.AffineMap:
    """The map `(d0, ..., d<dims-1>) -> (d<results[0]>, ...)`."""
    return ir.AffineMap.get(dims, 0, [ir.AffineDimExpr.get(r) for r in results])


def poison(kind: ir.Type) -> ir.Value:
    """A value that is never looked at: what a transfer in bounds would pad with, or a vector about to be filled."""
    return ir.Operation.create("ub.poison", results=[kind], attributes={"value": ir.Attribute.parse("#ub.poison")}).result


def read(source: ir.Value, indices: Sequence[ir.Value], shape: Sequence[int], element: ElementType) -> ir.Value:
    """`vector.transfer_read` of `shape`, known to be in bounds, along the innermost dimensions of `source`."""
    minor = ir.AffineMap.get_minor_identity(len(indices), len(shape))
    return vector.TransferReadOp(
        vector_type(shape, element), source, list(indices), minor, poison(element_type(element)), [True] * len(shape)
    ).result


def write(value: ir.Value, target: ir.Value, indices: Sequence[ir.Value], *, in_bounds: bool, mask: ir.Value | None = None) -> ir.Value:
    """`vector.transfer_write` of a whole vector into the tensor `target`; what falls outside is dropped unless `in_bounds`."""
    rank = ir.VectorType(value.type).rank
    minor = ir.AffineMap.get_minor_identity(len(indices), rank)
    return vector.TransferWriteOp(target.type, value, target, list(indices), minor, [in_bounds] * rank, mask=mask).result
