"""The transform-dialect ops that the schedules use, one short typed function each; the only place that knows their spelling.

IREE's own ops (`transform.iree.*`, `transform.util.*`) and pattern sets have no Python classes: they are created by name, and
the one with operand segments has a small class here. Every function works at the current insertion point.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from iree.compiler import ir
from iree.compiler.dialects import transform
from iree.compiler.dialects._transform_ops_gen import _Dialect, _ods_cext
from iree.compiler.dialects.transform import structured

from ..dispatch import STAGE

Handle: TypeAlias = ir.Value  # of operations in the payload
ValueHandle: TypeAlias = ir.Value  # of values in the payload


@_ods_cext.register_operation(_Dialect)
class CastAndCallOp(ir.OpView):
    """`transform.util.cast_and_call`: operands are (insertion point, inputs?, outputs?, function?)."""

    OPERATION_NAME = "transform.util.cast_and_call"
    _ODS_REGIONS = (1, True)
    _ODS_OPERAND_SEGMENTS = [1, 0, 0, 0]  # noqa: RUF012  0: optional, 1: one operand


def any_op() -> ir.Type:
    return transform.AnyOpType.get()


def any_value() -> ir.Type:
    return transform.AnyValueType.get()


def _create(name: str, operands: Sequence[ir.Value], results: int = 0, **attributes: ir.Attribute) -> list[ir.Value]:
    return list(ir.Operation.create(name, results=[any_op()] * results, operands=list(operands), attributes=attributes).results)


# Finding operations and values.


def find(root: Handle, op: str, stage: str | None = None) -> Handle:
    """The ops of that name under `root`, in order; only those marked with the stage, where one is given."""
    attributes = {STAGE: ir.StringAttr.get(stage)} if stage else None
    return structured.MatchOp(any_op(), root, ops=[op], op_attrs=attributes).results_


def annotate(handle: Handle, name: str, attribute: ir.Attribute) -> None:
    transform.AnnotateOp(handle, name, param=_param(attribute))


def _param(attribute: ir.Attribute) -> ir.Value:
    return transform.ParamConstantOp(transform.AnyParamType.get(), attribute).result


def parent(handle: Handle, op: str) -> Handle:
    return transform.GetParentOp(any_op(), handle, op_name=op, deduplicate=True).parent


def producer(handle: Handle, operand: int) -> Handle:
    return transform.GetProducerOfOperand(any_op(), handle, operand).producer


def result(handle: Handle, *positions: int) -> ValueHandle:
    """The first result, or those at the positions."""
    return transform.GetResultOp(any_value(), handle, list(positions or (0,))).result


@contextmanager
def foreach(handle: Handle) -> Iterator[Handle]:
    """A loop over the ops of `handle`; gives the handle to the one at hand.

    Handles to values are made in such a body only: they end with it, and one that outlived a block argument crashes the compiler.
    """
    op = transform.ForeachOp([], [handle])
    with ir.InsertionPoint(op.body):
        yield op.bodyTargets[0]
        transform.YieldOp([])


# Functions written by us, inlined into the payload.


def inline(function: str, inputs: Sequence[ValueHandle], output: ValueHandle, after: Handle, module: Handle) -> None:
    """Inlines `@function(inputs)` after the op `after`, and lets its result take the place of `output`."""
    (symbol,) = _create(
        "transform.util.import_symbol", [module], 1, symbol=ir.FlatSymbolRefAttr.get(function), if_undefined=ir.UnitAttr.get()
    )
    merged = transform.MergeHandlesOp(list(inputs)).result if inputs else None
    CastAndCallOp.build_generic(
        results=[],
        operands=[after, merged, output, symbol],
        attributes={"inline_call": ir.UnitAttr.get(), "insert_after": ir.UnitAttr.get()},
    ).regions[0].blocks.append()


# Rewriting everything in place.


def apply_patterns(handle: Handle, *names: str) -> None:
    """Applies the pattern sets `transform.apply_patterns.<name>` together, greedily."""
    op = transform.ApplyPatternsOp(handle)
    with ir.InsertionPoint(op.patterns):
        for name in names:
            _create(f"transform.apply_patterns.{name}", [])


def apply_lowering_patterns(handle: Handle) -> None:
    """Lowers transfers and shape changes of vectors to what LLVM takes."""
    op = transform.ApplyPatternsOp(handle)
    with ir.InsertionPoint(op.patterns):
        _create("transform.apply_patterns.vector.transfer_to_scf", [], full_unroll=ir.BoolAttr.get(True))
        for name in ("lower_shape_cast", "lower_broadcast", "lower_transfer", "lower_transpose"):
            _create(f"transform.apply_patterns.vector.{name}", [])
        _create("transform.apply_patterns.canonicalization", [])


def cse(handle: Handle) -> None:
    transform.ApplyCommonSubexpressionEliminationOp(handle)


def dce(handle: Handle) -> None:
    """Drops what is not used."""
    transform.ApplyDeadCodeEliminationOp(handle)


def dead_symbols(module: Handle) -> Handle:
    """Drops the inlined functions: a leftover one would not legalize. Handles into the module are gone after it."""
    return transform.ApplyRegisteredPassOp(any_op(), module, "symbol-dce").result


# IREE's own.


def populate_workgroup_count(forall: Handle) -> None:
    _create("transform.iree.populate_workgroup_count_region_using_num_threads_slice", [forall])


def eliminate_empty_tensors(function: Handle) -> None:
    _create("transform.iree.eliminate_empty_tensors", [function])


def bufferize(function: Handle) -> Handle:
    return _create("transform.iree.bufferize", [function], 1)[0]


def bufferize_gpu(function: Handle) -> Handle:
    """As `bufferize`, with temporaries in workgroup memory."""
    return _create("transform.iree.bufferize", [function], 1, target_gpu=ir.UnitAttr.get())[0]


def forall_to_workgroup(function: Handle) -> None:
    _create("transform.iree.forall_to_workgroup", [function])


def map_to_threads(function: Handle, workgroup_size: int, subgroup_size: int) -> None:
    """Turns warp, lane and thread foralls into code by thread id, without barriers: the kernel has its own."""
    _create(
        "transform.iree.map_nested_forall_to_gpu_threads", [function],
        workgroup_dims=ir.DenseI64ArrayAttr.get([workgroup_size, 1, 1]),
        subgroup_size=ir.IntegerAttr.get(ir.IntegerType.get_signless(64), subgroup_size),
        sync_after_distribution=ir.BoolAttr.get(False),
    )  # fmt: skip


def dump(handle: Handle, name: str) -> None:
    """Prints the payload at this point, while a schedule is being worked on."""
    transform.PrintOp(target=handle, name=name)
