"""Runs a kernel of an AMDGPU code object on an emulator of the instruction set, on the CPU: tinygrad's, from a checkout of its sources.

    open_emulator(checkout)                                           # once a process; EmulatorMissing says what is not here
    run = CodeObject(data).run("gfx942", workgroups=1, threads=256, inputs=[x], outputs=[y])
    run.kinds, run.out_of_range

The emulator is part of tinygrad's repository (https://github.com/tinygrad/tinygrad), not of its wheel. The layout of the code object
and of its kernel descriptor is LLVM's, "User Guide for AMDGPU Backend".
"""

from __future__ import annotations

import collections
import ctypes
import functools
import importlib.util
import io
import mmap
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ENVIRONMENT = "IREE_REDUCE_TINYGRAD"
KNOWN_COMMIT = "a9069c177a9da9cca18593edf55acd2e6073cca6"

# The emulator's name of each target's instruction set, its subgroup size, and what IREE needs to be told besides the target:
# the emulator has no buffer instructions of RDNA, for which global ones stand in.
SETS: Mapping[str, tuple[str, int, tuple[str, ...]]] = {
    "gfx90a": ("cdna", 64, ()),
    "gfx942": ("cdna", 64, ()),
    "gfx1100": ("rdna3", 32, ("--iree-rocdl-enable-buffer-instructions=false",)),
}

_GUARD = 4096  # bytes before and behind each array
_POISON = 0xFE  # fills them: a negative number far from any sensible one, or a NaN, in every type


class EmulatorMissing(RuntimeError):
    """Something that the emulator needs is not here; one line says what, and what to do."""


def open_emulator(checkout: str | None = None) -> Path:
    """Makes the emulator importable from a checkout, by default the one that $IREE_REDUCE_TINYGRAD names, and gives its path."""
    given = checkout or os.environ.get(ENVIRONMENT)
    if not given:
        raise EmulatorMissing(
            f"no checkout of tinygrad is named: git clone https://github.com/tinygrad/tinygrad, git checkout {KNOWN_COMMIT[:10]}, "
            f"and give its path by --tinygrad or {ENVIRONMENT}"
        )
    root = Path(given).absolute()
    if not (root / "test" / "mockgpu" / "amd" / "emu.py").is_file():
        raise EmulatorMissing(
            f"{root} is not a checkout of tinygrad with test/mockgpu/amd/emu.py: commit {KNOWN_COMMIT[:10]} is known to work"
        )
    if shutil.which("clang") is None:
        raise EmulatorMissing("clang is not on the PATH, and the emulator compiles each instruction with it: install the package clang")
    if importlib.util.find_spec("elftools") is None:
        raise EmulatorMissing("pyelftools is not installed: pip install pyelftools")
    _import_from(root)
    return root


@functools.cache
def _import_from(root: Path) -> None:
    sys.path.insert(0, str(root))
    try:
        import emulator_mends

        emulator_mends.mend()
    except (ImportError, AttributeError) as e:
        raise EmulatorMissing(f"the emulator in {root} can't be used ({e}): commit {KNOWN_COMMIT[:10]} is known to work") from e


def checked_out(root: Path) -> str:
    """The checkout's commit, or `unknown`."""
    try:
        found = subprocess.run(["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return found.stdout.strip() or "unknown"


@dataclass(frozen=True)
class Run:
    """What one run executed, in all workgroups. out_of_range: accesses outside the arrays; they read 0 and write nothing,
    as buffer accesses past the end do on the hardware, where global ones would fault."""

    instructions: Mapping[str, int]
    out_of_range: int

    @property
    def kinds(self) -> dict[str, int]:
        """The instructions by kind, those that cost differently apart."""
        found: collections.Counter[str] = collections.Counter()
        for name, count in self.instructions.items():
            found[kind(name)] += count
        return dict(sorted(found.items()))

    @property
    def total(self) -> int:
        return sum(self.instructions.values())


def kind(mnemonic: str) -> str:
    """The kind of an instruction.

    >>> kind("BUFFER_LOAD_DWORDX4"), kind("S_CBRANCH_SCC1"), kind("V_ADD_F32_E32")
    ('memory', 'branch', 'vector')
    """
    name = mnemonic.lower()
    starts = {
        "ds_": "shared memory",
        "buffer_gl": "wait",
        "buffer_": "memory",
        "global_": "memory",
        "flat_": "memory",
        "s_load": "scalar memory",
        "s_buffer": "scalar memory",
        "s_wait": "wait",
        "s_nop": "wait",
        "s_delay": "wait",
        "s_branch": "branch",
        "s_cbranch": "branch",
        "s_": "scalar",
    }
    if "barrier" in name:
        return "barrier"
    return next((found for start, found in starts.items() if name.startswith(start)), "vector")


class CodeObject:
    """A kernel of a `.hsaco`, loaded into memory. name: which one, where there are several."""

    def __init__(self, data: bytes, name: str | None = None):
        from elftools.elf.elffile import ELFFile

        elf = ELFFile(io.BytesIO(data))
        segments = [s for s in elf.iter_segments() if s["p_type"] == "PT_LOAD"]
        end = max(s["p_vaddr"] + s["p_memsz"] for s in segments)
        self._memory = mmap.mmap(-1, (end + 0x3FFF) & ~0xFFF)  # the emulator decodes past the last instruction
        for s in segments:
            self._memory[s["p_vaddr"] : s["p_vaddr"] + s["p_filesz"]] = s.data()
        table = elf.get_section_by_name(".symtab") or elf.get_section_by_name(".dynsym")
        descriptors = [s for s in table.iter_symbols() if (s.name == f"{name}.kd" if name else s.name.endswith(".kd"))]
        if len(descriptors) != 1:
            raise ValueError(f"the code object has {len(descriptors)} kernels{f' called {name}' if name else ''}, not one")
        at = descriptors[0]["st_value"]
        self.kernel = descriptors[0].name.removesuffix(".kd")
        descriptor = self._memory[at : at + 64]
        self.shared_memory_bytes, self.scratch_bytes, self._arguments = struct.unpack_from("<III", descriptor, 0)
        self._entry = at + struct.unpack_from("<q", descriptor, 16)[0]
        self._rsrc1, self._rsrc2 = struct.unpack_from("<II", descriptor, 48)
        (self._properties,) = struct.unpack_from("<H", descriptor, 56)

    def run(self, target: str, workgroups: Sequence[int], threads: int, inputs: Sequence[Any], outputs: Sequence[Any]) -> Run:
        """Runs the kernel on C-contiguous arrays, in the order of its bindings, and fills the outputs. workgroups: along x, y and z.

        The arrays lie between guards: what is read there spoils the result, and a write there raises MemoryError.
        """
        from emulator_instructions import counting
        from emulator_mends import keep_subnormals
        from test.mockgpu.amd.emu import run_asm  # type: ignore[import-not-found]

        held = [_Guarded(array) for array in (*inputs, *outputs)]
        packed = b"".join(struct.pack("<Q", h.address) for h in held).ljust(max(self._arguments, 256), b"\0")
        arguments = ctypes.create_string_buffer(packed, len(packed))
        address = ctypes.addressof(arguments)
        granules = max(self._rsrc2 >> 15 & 0x1FF, (self.shared_memory_bytes + 511) // 512)  # of 512 bytes; the loader fills them in
        rsrc2 = self._rsrc2 & ~(0x1FF << 15) | granules << 15
        base = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        sizes = (*workgroups, threads, 1, 1)
        registers = self._user_registers(address, rsrc2 >> 1 & 0x1F)
        keep_subnormals(self._rsrc1 >> 16 & 0xF == 0xF)  # those of 32 bits, and the others
        with counting([h.addresses for h in held], self.shared_memory_bytes) as tally:
            try:
                run_asm(base + self._entry, len(self._memory), *sizes, address, rsrc2, self.scratch_bytes, SETS[target][0], registers)
            except ValueError as e:  # an instruction that it doesn't know
                raise RuntimeError(f"the emulator stopped: {e}") from e
        for output, guarded in zip(outputs, held[len(inputs) :], strict=True):
            output[...] = guarded.array
        for guarded in held:
            guarded.check()
        return Run(dict(tally.instructions), tally.out_of_range)

    def _user_registers(self, arguments: int, count: int) -> list[int]:
        """The scalar registers as the hardware fills them: what the descriptor's properties ask for, in their order."""
        registers: list[int] = []
        registers += [0] * 4 * (self._properties & 1)  # the private segment's buffer resource
        registers += [0] * 2 * (self._properties >> 1 & 1)  # pointer to the dispatch packet
        registers += [0] * 2 * (self._properties >> 2 & 1)  # pointer to the queue
        registers += [arguments & 0xFFFFFFFF, arguments >> 32] * (self._properties >> 3 & 1)
        return (registers + [0] * count)[:count] if count else registers


class _Guarded:
    """A copy of an array between guards of poison, page-aligned as a device's buffers are."""

    def __init__(self, array: Any):
        self._memory = np.full(array.nbytes + 3 * _GUARD, _POISON, np.uint8)
        start = -self._memory.ctypes.data % _GUARD + _GUARD
        self._inside = slice(start, start + array.nbytes)
        self.array = self._memory[self._inside].view(array.dtype).reshape(array.shape)
        self.array[...] = array
        self.address = self.array.ctypes.data
        self.addresses = range(self.address, self.address + array.nbytes)

    def check(self) -> None:
        around = self._memory[: self._inside.start], self._memory[self._inside.stop :]
        if any((guard != _POISON).any() for guard in around):
            raise MemoryError("the kernel wrote outside its arrays")
