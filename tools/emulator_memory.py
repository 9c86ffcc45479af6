"""Loads and stores of tinygrad's emulator, executed by Python: at any alignment, and checked for their range.

MUBUF of CDNA, GLOBAL of RDNA3, and DS (shared memory) of both. Addresses need not be aligned to the access: LLVM relies on that, and the
hardware is set so for compute programs ("unaligned access mode" in its "User Guide for AMDGPU Backend").
Source of the encodings: AMD's "CDNA3 Instruction Set Architecture" and "RDNA3 Instruction Set Architecture" reference guides.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from emulator_instructions import SCALARS, VECTORS, Found, Wave, decoded, tally, words

SHARED = 3  # the emulator's number for the buffer of shared memory

# MUBUF's kinds: bytes of a piece, pieces. The other encodings say B32, U16, I8, ...
_KINDS = {
    "UBYTE": (1, 1), "SBYTE": (1, 1), "BYTE": (1, 1), "USHORT": (2, 1), "SSHORT": (2, 1), "SHORT": (2, 1),
    "DWORD": (4, 1), "DWORDX2": (4, 2), "DWORDX3": (4, 3), "DWORDX4": (4, 4),
}  # fmt: skip


@dataclass(frozen=True)
class Access:
    """What a load or store moves between memory and a lane's registers.

    width: bytes of a piece, which is checked and moved by itself; pieces: such pieces, in as many registers.
    half: fills half a register, and keeps the other; high: the upper half.
    """

    loads: bool
    width: int
    pieces: int
    signed: bool
    half: bool
    high: bool

    @staticmethod
    def of(mnemonic: str) -> Access | None:
        """None for what is no plain load or store."""
        first, verb, *rest = [*mnemonic.split("_"), ""]
        if first not in ("BUFFER", "GLOBAL", "DS") or verb not in ("LOAD", "READ", "STORE", "WRITE"):
            return None
        rest = [part for part in rest if part]
        kinds = [part for part in rest if part not in ("D16", "HI")]
        if len(kinds) != 1:
            return None  # two addresses, formats, transposing loads
        (kind,) = kinds
        sized = re.fullmatch(r"([BUI])(8|16|32|64|96|128)", kind)
        if kind not in _KINDS and sized is None:
            return None
        size = int(sized.group(2)) // 8 if sized else 0
        width, pieces = (min(size, 4), max(size // 4, 1)) if sized else _KINDS[kind]
        signed = kind.startswith(("I", "SB", "SS"))
        return Access(verb in ("LOAD", "READ"), width, pieces, signed, "D16" in rest, "HI" in rest)

    def move(self, wave: Wave, lane: int, register: int, address: int, inside: Callable[[int, int], bool]) -> None:
        """A load past the end gives 0, a store there does nothing."""
        for piece in range(self.pieces):
            at = address + self.width * piece
            self._move(wave, (register + piece) * wave.lanes + lane, at, inside(at, self.width))

    def _move(self, wave: Wave, at: int, address: int, inside: bool) -> None:
        tally().out_of_range += not inside
        old = wave.vectors[at]
        if not self.loads:
            if inside:
                value = old >> (16 if self.high else 0) & (1 << 8 * self.width) - 1
                ctypes.memmove(address, value.to_bytes(self.width, "little"), self.width)
            return
        value = int.from_bytes(ctypes.string_at(address, self.width), "little", signed=self.signed) if inside else 0
        if self.half:
            value &= 0xFFFF
            value = old & 0xFFFF | value << 16 if self.high else old & 0xFFFF0000 | value
        wave.vectors[at] = value & 0xFFFFFFFF


def mubuf(emu: Any, pc: int, arch: str) -> Found | None:
    """Through a buffer resource, which holds the base, the stride and the size.

    The offset in the register and the one in the instruction are added in 32 bits, so that a negative one in the register, which LLVM's
    loop strength reduction makes, is in range where the sum is. Source: Mesa's ACO optimizer folds constants into MUBUF on that ground
    (`vaddr_prevent_overflow`). A comment in LLVM's `splitBufferOffsets` doubts it; nothing here can tell which is right.
    """
    first, second = words(pc)
    to_lds, accumulation = first >> 16 & 1, second >> 23 & 1
    if not arch.startswith("cdna") or first >> 26 != 0x38 or to_lds or accumulation:
        return None
    inst = decoded(emu, pc, arch)
    access = Access.of(inst.op.name)
    if access is None:
        return None
    immediate, has_offset, has_index = first & 0xFFF, first >> 12 & 1, first >> 13 & 1
    address, data, resource, base = second & 0xFF, second >> 8 & 0xFF, (second >> 16 & 0x1F) * 4, second >> 24
    lanes = emu._wave_size(arch)

    def run(scalars: Any, vectors: Any) -> None:
        wave = Wave(emu, scalars.value, vectors.value, lanes)
        low, high, size = wave.scalars[resource : resource + 3]
        start, stride = (low | high << 32) & 0xFFFFFFFFFFFF, high >> 16 & 0x3FFF
        added = immediate + (wave.scalars[base] if base < 128 else base - 128)
        for lane in wave.active:
            index = wave.vectors[address * lanes + lane] if has_index else 0
            offset = wave.vectors[(address + has_index) * lanes + lane] if has_offset else 0
            first = start + (offset + added & 0xFFFFFFFF) + stride * index
            access.move(wave, lane, data, first, lambda at, width: at + width <= start + size)
        wave.advance(8)

    return run, [SCALARS, VECTORS], inst


def global_access(emu: Any, pc: int, arch: str) -> Found | None:
    """GLOBAL of RDNA3. What lies outside the arrays would be a fault; here it is counted, and not done."""
    first, second = words(pc)
    if arch != "rdna3" or first >> 26 != 0x37 or first >> 16 & 3 != 2:
        return None
    inst = decoded(emu, pc, arch)
    access = Access.of(inst.op.name)
    if access is None:
        return None
    immediate = (first & 0x1FFF) - (first << 1 & 0x2000)  # 13 bits with a sign
    address, base = second & 0xFF, second >> 16 & 0x7F
    data = second >> 24 if access.loads else second >> 8 & 0xFF
    lanes = emu._wave_size(arch)

    def inside(at: int, width: int) -> bool:
        return any(held.start <= at and at + width <= held.stop for held in tally().ranges)

    def run(scalars: Any, vectors: Any) -> None:
        wave = Wave(emu, scalars.value, vectors.value, lanes)
        start = wave.scalars[base] | wave.scalars[base + 1] << 32 if base < 124 else 0
        for lane in wave.active:
            offset = wave.vectors[address * lanes + lane]
            if base >= 124:
                offset |= wave.vectors[(address + 1) * lanes + lane] << 32
            access.move(wave, lane, data, start + offset + immediate, inside)
        wave.advance(8)

    return run, [SCALARS, VECTORS], inst


def shared_access(emu: Any, pc: int, arch: str) -> Found | None:
    """DS with one address. The emulator also forms the addresses of inactive lanes, from registers that hold anything."""
    first, second = words(pc)
    accumulation = first >> 25 & 1 if arch.startswith("cdna") else 0
    if first >> 26 != 0x36 or accumulation:
        return None
    inst = decoded(emu, pc, arch)
    access = Access.of(inst.op.name)
    if access is None:
        return None
    immediate, address = first & 0xFFFF, second & 0xFF
    data = second >> 24 if access.loads else second >> 8 & 0xFF
    lanes = emu._wave_size(arch)

    def run(scalars: Any, vectors: Any, shared: Any) -> None:
        wave = Wave(emu, scalars.value, vectors.value, lanes)
        start, size = shared.value, tally().shared_bytes
        for lane in wave.active:
            offset = wave.vectors[address * lanes + lane] + immediate
            access.move(wave, lane, data, start + offset, lambda at, width: at + width <= start + size)
        wave.advance(8)

    return run, [SCALARS, VECTORS, SHARED], inst
