"""What AMD assembly text says about a kernel: registers, spills, shared memory, barriers, lane operations, loads by width.

Read from IREE's `.rocmasm` dump, in the spellings of gfx9 (`buffer_load_dwordx4`), gfx11 (`buffer_load_b128`) and gfx12
(`s_barrier_signal` + `s_barrier_wait`, a pair of which counts once). The backend drops `s_barrier` by itself where a
workgroup is a single subgroup, so 0 barriers there is right.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

LANE_OPS = ("dpp", "swizzle", "bpermute", "permute", "permlane", "readlane")
LOAD_WIDTHS = ("b8", "b16", "b32", "b64", "b96", "b128")

_LABEL = re.compile(r"^([.\w$]+):")
_BRANCH = re.compile(r"^s_c?branch\w*$")
_WAIT = re.compile(r"^s_waitcnt\b.*vmcnt\((\d+)\)|^s_wait_loadcnt\w*\s+(\w+)")
_LOAD = re.compile(r"^(?:buffer|global|flat)_load_(?:d16_hi_|d16_)?([a-z]+\d*)")
_WIDTHS = {
    "ubyte": "b8", "sbyte": "b8", "u8": "b8", "i8": "b8",
    "ushort": "b16", "sshort": "b16", "short": "b16", "u16": "b16", "i16": "b16", "b16": "b16",
    "dword": "b32", "b32": "b32", "dwordx2": "b64", "b64": "b64",
    "dwordx3": "b96", "b96": "b96", "dwordx4": "b128", "b128": "b128",
}  # fmt: skip
_LANE_PREFIXES = {
    "ds_swizzle": "swizzle",
    "ds_bpermute": "bpermute",
    "ds_permute": "permute",
    "v_permlane": "permlane",
    "v_readlane": "readlane",
}


@dataclass(frozen=True)
class Kernel:
    """One kernel's figures. `spills` counts scalar and vector registers; `shared_memory_bytes` is per workgroup."""

    name: str
    shared_memory_bytes: int
    vgprs: int
    sgprs: int
    spills: int
    subgroup_size: int
    barriers_in_loop: int = 0
    barriers_outside: int = 0
    lane_ops: dict[str, int] = field(default_factory=dict)
    wide_loads: dict[str, int] = field(default_factory=dict)
    loads_in_flight: int = 0  # at most: issued by a wave before it waits for the first of them


@dataclass
class _Block:
    """A basic block: the labels that lead to it, its mnemonics, and where it goes."""

    labels: list[str]
    mnemonics: list[str]
    targets: list[str]
    falls_through: bool = True


def read_kernels(text: str) -> dict[str, Kernel]:
    """The kernels of an assembly text, by name.

    >>> read_kernels("")
    {}
    """
    kernels = {}
    for figures in _metadata(text):
        name = figures["name"]
        blocks = _blocks(_body(text, name))
        looping = _in_loop(blocks)
        mnemonics = [m for block in blocks for m in block.mnemonics]
        inside = sum(_barriers(b) for b, loops in zip(blocks, looping, strict=True) if loops)
        kernels[name] = Kernel(
            name=name,
            shared_memory_bytes=int(figures["group_segment_fixed_size"]),
            vgprs=int(figures["vgpr_count"]),
            sgprs=int(figures["sgpr_count"]),
            spills=int(figures["vgpr_spill_count"]) + int(figures["sgpr_spill_count"]),
            subgroup_size=int(figures["wavefront_size"]),
            barriers_in_loop=inside,
            barriers_outside=sum(map(_barriers, blocks)) - inside,
            lane_ops=_count(map(_lane_op, mnemonics), LANE_OPS),
            wide_loads=_count(map(_load_width, mnemonics), LOAD_WIDTHS),
            loads_in_flight=_in_flight(_body(text, name)),
        )
    return kernels


def _metadata(text: str) -> list[dict[str, str]]:
    """The entries of `amdhsa.kernels`: the keys at the entry's own depth, arguments left out."""
    found = re.search(r"^amdhsa\.kernels:\n(.*?)^(?=\S)", text, re.MULTILINE | re.DOTALL)
    if found is None:
        return []
    entries: list[dict[str, str]] = []
    for line in found.group(1).splitlines():
        if line.startswith("  - "):
            entries.append({})
        key = re.match(r"^(?:  - |    )\.(\w+):\s*(\S*)", line)
        if key and entries:
            entries[-1][key.group(1)] = key.group(2).strip("'\"")
    return entries


def _body(text: str, name: str) -> list[str]:
    """The lines of the kernel's code, comments and blank lines left out."""
    start = re.search(rf"^{re.escape(name)}:", text, re.MULTILINE)
    if start is None:
        return []
    end = re.search(rf"^(?:\.Lfunc_end\d+:|\s+\.size\s+{re.escape(name)},)", text[start.end() :], re.MULTILINE)
    code = text[start.end() : start.end() + end.start() if end else None]
    lines = (line.split(";", 1)[0].strip() for line in code.splitlines())
    return [line for line in lines if line]


def _blocks(lines: Sequence[str]) -> list[_Block]:
    blocks = [_Block([], [], [])]
    closed = False  # whether the last block ended in a branch
    for line in lines:
        label = _LABEL.match(line)
        if label:
            if closed or blocks[-1].mnemonics:
                blocks.append(_Block([], [], []))
                closed = False
            blocks[-1].labels.append(label.group(1))
            continue
        if line.startswith("."):
            continue  # an assembler directive
        if closed:
            blocks.append(_Block([], [], []))
            closed = False
        mnemonic, _, operands = line.partition(" ")
        mnemonic, _, more = mnemonic.partition("\t")
        blocks[-1].mnemonics.append(mnemonic)
        if _BRANCH.match(mnemonic):
            blocks[-1].targets.append((more or operands).strip())
            blocks[-1].falls_through = mnemonic != "s_branch"
            closed = True
        elif mnemonic == "s_endpgm":
            blocks[-1].falls_through = False
            closed = True
    return blocks


def _in_loop(blocks: Sequence[_Block]) -> list[bool]:
    """For each block, whether control can come back to it.

    Following the edges is exact where a range from a label to a backward branch is not: blocks that run once may be laid
    out inside such a range.
    """
    at = {label: i for i, block in enumerate(blocks) for label in block.labels}
    edges = [
        [at[t] for t in block.targets if t in at] + ([i + 1] if block.falls_through and i + 1 < len(blocks) else [])
        for i, block in enumerate(blocks)
    ]

    def returns(start: int) -> bool:
        seen: set[int] = set()
        waiting = list(edges[start])
        while waiting:
            block = waiting.pop()
            if block == start:
                return True
            if block not in seen:
                seen.add(block)
                waiting.extend(edges[block])
        return False

    return [returns(i) for i in range(len(blocks))]


def _in_flight(lines: Sequence[str]) -> int:
    """The most loads that are on their way at once, following the text; a wait for n leaves the last n of them."""
    most = held = 0
    for line in lines:
        wait = _WAIT.match(line)
        if wait is not None:
            held = min(held, int(next(n for n in wait.groups() if n is not None), 0))
        elif _LOAD.match(line):
            held += 1
            most = max(most, held)
    return most


def _barriers(block: _Block) -> int:
    return sum(m in ("s_barrier", "s_barrier_wait") for m in block.mnemonics)


def _lane_op(mnemonic: str) -> str | None:
    if mnemonic.endswith(("_dpp", "_dpp8")):
        return "dpp"
    return next((kind for prefix, kind in _LANE_PREFIXES.items() if mnemonic.startswith(prefix)), None)


def _load_width(mnemonic: str) -> str | None:
    found = _LOAD.match(mnemonic)
    return _WIDTHS.get(found.group(1)) if found else None


def _count(found: map[str | None], keys: Sequence[str]) -> dict[str, int]:
    seen = list(found)
    return {key: seen.count(key) for key in keys}
