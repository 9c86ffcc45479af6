"""Instructions that tinygrad's emulator does not know, or not well enough, executed on its registers by Python.

Sources: AMD's "CDNA3 Instruction Set Architecture" and "RDNA3 Instruction Set Architecture" reference guides.
"""

from __future__ import annotations

import collections
import ctypes
import struct
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

REGISTERS = 256  # vector registers of a wave
LITERAL = 255  # as an operand: the word after the instruction
SCALARS, VECTORS = 0, 1  # the emulator's numbers for the two register files

Found = tuple[Callable[..., Any], list[int], Any]  # what runs it, the numbers of the buffers that it is given, and the instruction


@dataclass
class Tally:
    """What was executed: instructions by mnemonic, and accesses outside the arrays (`ranges` of addresses) and the shared memory."""

    ranges: Sequence[range] = ()
    shared_bytes: int = 0
    instructions: collections.Counter[str] = field(default_factory=collections.Counter)
    out_of_range: int = 0


_tally = Tally()


@contextmanager
def counting(ranges: Sequence[range], shared_bytes: int) -> Iterator[Tally]:
    """Counts what the emulator executes meanwhile, on arrays that lie at these addresses."""
    global _tally
    _tally = Tally(ranges, shared_bytes)
    yield _tally


def tally() -> Tally:
    """The one in use."""
    return _tally


class Wave:
    """The registers of one wave, where the emulator keeps them: a vector register is one word a lane."""

    def __init__(self, emu: Any, scalars: int, vectors: int, lanes: int):
        self.scalars = (ctypes.c_uint32 * 512).from_address(scalars)
        self.vectors = (ctypes.c_uint32 * (REGISTERS * lanes)).from_address(vectors)
        self.lanes = lanes
        self._pc = (emu.PC_LO_IDX, emu.PC_HI_IDX)
        low = emu.EXEC_LO.offset
        mask = self.scalars[low] | (self.scalars[low + 1] << 32 if lanes == 64 else 0)
        self.active = [lane for lane in range(lanes) if mask >> lane & 1]

    @property
    def pc(self) -> int:
        low, high = self._pc
        return int(self.scalars[low] | self.scalars[high] << 32)

    @pc.setter
    def pc(self, address: int) -> None:
        low, high = self._pc
        self.scalars[low], self.scalars[high] = address & 0xFFFFFFFF, address >> 32

    def advance(self, size: int) -> None:
        self.pc += size


def words(pc: int) -> tuple[int, int]:
    first, second = (ctypes.c_uint32 * 2).from_address(pc)
    return first, second


def decoded(emu: Any, pc: int, arch: str) -> Any:
    return emu.decode_inst(ctypes.string_at(pc, 16), arch)


def swizzle(emu: Any, pc: int, arch: str) -> Found | None:
    """`ds_swizzle_b32` in bit-mask mode: lane j of each 32 reads lane ((j & and) | or) ^ xor."""
    first, second = words(pc)
    code, offset = (first >> 17) & 0xFF if arch.startswith("cdna") else (first >> 18) & 0xFF, first & 0xFFFF
    if first >> 26 != 0x36 or code not in (0x3D, 0x35) or offset >> 15:
        return None
    keep, put, flip = offset & 31, offset >> 5 & 31, offset >> 10 & 31
    lanes = emu._wave_size(arch)
    source, target = (second & 0xFF) * lanes, (second >> 24) * lanes

    def run(scalars: Any, vectors: Any) -> None:
        wave = Wave(emu, scalars.value, vectors.value, lanes)
        old, active = wave.vectors[source : source + lanes], set(wave.active)
        for lane in active:
            other = (lane & ~31) | ((((lane & 31) & keep) | put) ^ flip)
            wave.vectors[target + lane] = old[other] if other in active else 0
        wave.advance(8)

    return run, [SCALARS, VECTORS], decoded(emu, pc, arch)


def permlanex16(emu: Any, pc: int, arch: str) -> Found | None:
    """`v_permlanex16_b32` with a literal among its selects: lane i of a row of 16 reads the other row's lane that the selects name."""
    first, second = words(pc)
    (literal,) = struct.unpack("<I", ctypes.string_at(pc + 8, 4))
    selects = second >> 9 & 0x1FF, second >> 18 & 0x1FF
    if arch != "rdna3" or first >> 16 != 0xD65C or LITERAL not in selects:
        return None
    lanes = emu._wave_size(arch)
    source, target = (second & 0xFF) * lanes, (first & 0xFF) * lanes

    def run(scalars: Any, vectors: Any) -> None:
        wave = Wave(emu, scalars.value, vectors.value, lanes)
        low, high = (literal if select == LITERAL else _inline(wave, select) for select in selects)
        old, chosen = wave.vectors[source : source + lanes], low | high << 32
        for lane in wave.active:
            wave.vectors[target + lane] = old[(lane & ~15 ^ 16) + (chosen >> 4 * (lane & 15) & 15)]
        wave.advance(12)

    return run, [SCALARS, VECTORS], decoded(emu, pc, arch)


def _inline(wave: Wave, operand: int) -> int:
    """A scalar register, or a small constant."""
    if operand < 128:
        return int(wave.scalars[operand])
    return operand - 128 if operand <= 192 else (192 - operand) & 0xFFFFFFFF


def vop3_dpp(emu: Any, pc: int, arch: str) -> Found | None:
    """A VOP3 instruction of RDNA3 with a DPP source, which the emulator reads as if it had none.

    The source is brought to a register that no kernel here uses, and the same instruction runs on that.
    """
    first, second = words(pc)
    (control,) = struct.unpack("<I", ctypes.string_at(pc + 8, 4))
    if arch != "rdna3" or first >> 26 != 0x35 or second & 0x1FF != 0xFA:
        return None
    if control >> 24 != 0xFF:
        raise ValueError(f"DPP with a row or bank mask ({control:#x})")
    lanes, zero_where_invalid = emu._wave_size(arch), control >> 19 & 1
    sources = [_dpp_lane(control >> 8 & 0x1FF, lane) for lane in range(lanes)]
    register, spare = (control & 0xFF) * lanes, REGISTERS - 1
    plain = ctypes.create_string_buffer(struct.pack("<II", first, second & ~0x1FF | 0x100 | spare), 16)
    program, compiled = emu._get_runner(plain.raw[:12], arch)
    buffers = list(program.arg.globals)

    def run(*registers: Any) -> None:
        wave = Wave(emu, registers[buffers.index(SCALARS)].value, registers[buffers.index(VECTORS)].value, lanes)
        for lane in wave.active:
            source = sources[lane]
            valid = source is not None and source in wave.active
            if not valid and not zero_where_invalid:
                raise ValueError("DPP that keeps the old value where its source is not valid")
            wave.vectors[spare * lanes + lane] = wave.vectors[register + source] if valid else 0  # type: ignore[operator]
        wave.pc = ctypes.addressof(plain)  # from where the emulator reads the operands' numbers
        compiled.fxn(*registers)
        wave.pc = pc + 12

    return run, buffers, decoded(emu, pc, arch)


def _dpp_lane(control: int, lane: int) -> int | None:
    """The lane that a lane reads; None where there is none. A row is 16 lanes."""
    row, at, count = lane & ~15, lane & 15, control & 15
    if control < 0x100:  # quad_perm
        return lane & ~3 | control >> 2 * (lane & 3) & 3
    moved = {0x100: at + count, 0x110: at - count, 0x120: (at - count) & 15, 0x150: count, 0x160: at ^ count}.get(control & ~15)
    if control in (0x140, 0x141):  # row_mirror, row_half_mirror
        moved = at ^ (15 if control == 0x140 else 7)
    if moved is None:
        raise ValueError(f"DPP control {control:#x}")
    return row + moved if 0 <= moved < 16 else None


def invalidate(emu: Any, pc: int, arch: str) -> Found | None:
    """`buffer_gl0_inv`."""
    first, _ = words(pc)
    if arch != "rdna3" or first >> 26 != 0x38 or first >> 18 & 0xFF != 0x2B:
        return None
    lanes = emu._wave_size(arch)

    def run(scalars: Any, vectors: Any) -> None:
        Wave(emu, scalars.value, vectors.value, lanes).advance(8)

    return run, [SCALARS, VECTORS], types.SimpleNamespace(op=types.SimpleNamespace(name="BUFFER_GL0_INV"), size=lambda: 8)
