"""Mends for tinygrad's emulator of AMD's instruction sets, `test/mockgpu/amd/emu.py` of its repository.

What each instruction does is taken from AMD's "CDNA3 Instruction Set Architecture" reference guide, where the emulator of the
known commit differs from it or stops:

- DPP `row_bcast:15` and `:31` broadcast the last lane of the row (of the half) before; the emulator takes the row's first lane
- DPP `row_xmask` (RDNA3), which the emulator stops at
- a DPP source is read as it stood before the instruction; the emulator writes a register lane by lane while it reads it
- a DPP source of a VOP3 instruction (RDNA3), which the emulator reads as a constant
- `ds_swizzle_b32` in bit-mask mode
- loads and stores (`emulator_memory`): those of MUBUF that the emulator lacks, a check of their range, addresses that are not aligned
- a literal among the operands of `v_permlanex16_b32` (RDNA3), which the emulator reads as 0
- `buffer_gl0_inv` of RDNA3 ("RDNA3 Instruction Set Architecture"), which the emulator stops at; it has no caches, and nothing to do
- which of two zeros is the larger: the guide writes `== +0.0` and `== -0.0` where it means the sign, too
- reads of two addresses in shared memory: the emulator forms those of inactive lanes too, from registers that hold anything
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import re
import types
from collections.abc import Callable
from typing import Any

from emulator_instructions import REGISTERS, SCALARS, VECTORS, Wave, invalidate, permlanex16, swizzle, tally, vop3_dpp
from emulator_memory import global_access, mubuf, shared_access

IDENTITY, ROW_XMASK = 0xE4, 0x160  # a quad_perm that moves nothing; RDNA3's exclusive or of the lane in its row
ROW_BCAST_15, ROW_BCAST_31 = 0x142, 0x143  # values of the DPP control field
ACCUMULATION = 5  # the emulator's number for the buffer of accumulation registers, which none of our kernels uses

Runner = Callable[..., Any]


@functools.cache
def mend() -> None:
    """Puts the mends in the place of the emulator's own functions, once a process."""
    import test.mockgpu.amd.emu as emu  # type: ignore[import-not-found]

    _mend_dpp(emu)
    _mend_zeros(emu)
    decode = emu._decode_at
    before = ctypes.create_string_buffer(REGISTERS * 64 * 4)

    def decode_at(pc: int, arch: str) -> tuple[Any, Any]:
        ours = (swizzle, permlanex16, shared_access, mubuf, global_access, vop3_dpp, invalidate)
        found = next((found for known in ours if (found := known(emu, pc, arch))), None)
        if found is None:
            (program, compiled), inst = decode(pc, arch)
            buffers, run = list(program.arg.globals), compiled.fxn
            if hasattr(type(inst), "dpp") and hasattr(type(inst), "vsrc0") and ACCUMULATION in buffers:
                run = _reading_before(run, buffers, before, emu._wave_size(arch))
        else:
            run, buffers, inst = found
        name = getattr(getattr(inst, "op", None), "name", type(inst).__name__)
        if found is None and name.startswith(("DS_READ", "DS_LOAD")) and SCALARS in buffers:
            run = _active_addresses(emu, run, buffers, _address_register(pc), emu._wave_size(arch))

        def counted(*registers: Any) -> Any:
            tally().instructions[name] += 1
            return run(*registers)

        return (types.SimpleNamespace(arg=types.SimpleNamespace(globals=buffers)), types.SimpleNamespace(fxn=counted)), inst

    emu._decode_at = decode_at


def _mend_dpp(emu: Any) -> None:
    constant, types_, plain = emu._c, emu.dtypes, emu._dpp16_ctrl

    def control(lane: Any, dpp: int, row_mask: int, bank_mask: int, lanes: int) -> tuple[Any, Any, Any]:
        moved = IDENTITY if dpp & ~15 == ROW_XMASK else dpp
        source, enabled, valid = plain(lane, moved, row_mask, bank_mask, lanes)
        if moved != dpp:
            source = lane.cast(types_.int) ^ constant(dpp & 15, types_.int)
        if dpp in (ROW_BCAST_15, ROW_BCAST_31):
            group = 16 if dpp == ROW_BCAST_15 else 32
            at = lane.cast(types_.int)
            source, valid = (at & constant(-group, types_.int)) - constant(1, types_.int), at >= constant(group, types_.int)
        return source, enabled, valid

    def load(ctx: Any, inst: Any, lane: Any, fallback: Any) -> Any:
        attribute = emu._iattr
        masks = attribute(inst, "row_mask", 0xF), attribute(inst, "bank_mask", 0xF)
        source, enabled, valid = control(lane, attribute(inst, "dpp"), *masks, ctx.wave_size)
        safe = (enabled & valid).where(source, constant(0, types_.int)).cast(types_.int)
        register = ctx.inst_field(type(inst).vsrc0).cast(types_.int)
        before = emu.UOp.param(ACCUMULATION, types_.uint32, (REGISTERS * ctx.wave_size,))
        value = before.index(register * constant(ctx.wave_size, types_.int) + safe).load()
        invalid = emu.UOp.const(0, fallback.dtype) if attribute(inst, "bc") else fallback
        return enabled.where(valid.where(value, invalid), fallback)

    emu._dpp16_ctrl, emu._load_dpp16_src0 = control, load


def _mend_zeros(emu: Any) -> None:
    zeros = re.compile(r"\(\((\S+) == ([+-])0\.0\) && \((\S+) == ([+-])0\.0\)\)")

    def signed(found: re.Match[str]) -> str:
        a, sign_a, b, sign_b = found.groups()
        signs = (f"{'' if sign == '-' else '!'}sign({value})" for value, sign in ((a, sign_a), (b, sign_b)))
        return f"(({a} == 0.0) && ({b} == 0.0) && {' && '.join(signs)})"

    for op, text in emu.PCODE_CDNA.items():
        emu.PCODE_CDNA[op] = zeros.sub(signed, text)


def keep_subnormals(kept: bool) -> None:
    """Whether the next run keeps subnormal numbers, as a kernel's descriptor asks; the emulator makes them zero otherwise."""
    import test.mockgpu.amd.emu as emu

    emu._MXCSRContext = contextlib.nullcontext if kept else _flushing(emu)


@functools.cache
def _flushing(emu: Any) -> Any:
    return emu._MXCSRContext


def _reading_before(run: Runner, buffers: list[int], before: Any, lanes: int) -> Runner:
    """Gives a DPP instruction a copy of the vector registers, made just before it, where it looks for its source."""
    copy, vectors, size = buffers.index(ACCUMULATION), buffers.index(VECTORS), REGISTERS * lanes * 4
    address = ctypes.c_uint64(ctypes.addressof(before))

    def wrapped(*registers: Any) -> Any:
        ctypes.memmove(before, registers[vectors].value, size)
        return run(*registers[:copy], address, *registers[copy + 1 :])

    return wrapped


def _active_addresses(emu: Any, run: Runner, buffers: list[int], register: int, lanes: int) -> Runner:
    """Points the inactive lanes of an LDS read at 0 meanwhile."""
    scalars, vectors = buffers.index(SCALARS), buffers.index(VECTORS)

    def wrapped(*registers: Any) -> Any:
        wave = Wave(emu, registers[scalars].value, registers[vectors].value, lanes)
        kept = {register * lanes + lane: wave.vectors[register * lanes + lane] for lane in set(range(lanes)) - set(wave.active)}
        for at in kept:
            wave.vectors[at] = 0
        result = run(*registers)
        for at, value in kept.items():
            wave.vectors[at] = value
        return result

    return wrapped


def _address_register(pc: int) -> int:
    """Of a DS instruction."""
    return ctypes.string_at(pc, 5)[4]
