"""The compiler as seen from outside: its version, the flags it is given, and what its output depends on besides them.

Nothing here imports `iree.compiler`, which takes 0.2 s: a call that finds its kernel in the cache never pays for it.
"""

from __future__ import annotations

import functools
import platform
import re
import warnings
from pathlib import Path

from .errors import CompileError
from .targets import CPU_STACK_BYTES, Target

TESTED = "3.13"


def compile_flags(target: Target) -> tuple[str, ...]:
    """The flags of `iree-compile` for a target.

    >>> from iree_reduce_plugin.targets import find_target
    >>> compile_flags(find_target("gfx942"))
    ('--iree-input-demote-f64-to-f32=false', '--iree-hal-target-device=hip', '--iree-rocm-target=gfx942')
    """
    common: tuple[str, ...] = ("--iree-input-demote-f64-to-f32=false",)
    if target.description is not None:
        return common  # the module says what it is for
    common = (*common, f"--iree-hal-target-device={target.backend}")
    if target.is_rocm:
        return (*common, f"--iree-rocm-target={target.name}")
    return (
        *common,
        "--iree-hal-local-target-device-backends=llvm-cpu",
        "--iree-llvmcpu-target-cpu=host",
        "--iree-llvmcpu-reassociate-fp-reductions=false",  # the order of the sum is the tuning's
        f"--iree-llvmcpu-stack-allocation-limit={CPU_STACK_BYTES}",  # the accumulators of one row lie there
    )


@functools.cache
def compiler_version() -> str:
    """Version and revision of the installed IREE compiler. Warns, once a process, where it is not the tested one.

    Raises CompileError where no compiler is installed.
    """
    text = _version_file("compiler")
    if text is None:
        raise CompileError("the IREE compiler is not installed: pip install 'iree-base-compiler>=3.13,<3.14'")
    for part in ("compiler", "runtime"):
        version = iree_version(part)
        if version and not re.match(rf"{re.escape(TESTED)}(\D|$)", version):
            warnings.warn(
                f"IREE {part} {version} is untested with this package, which was tested with {TESTED} only: the schedules and "
                "their syntax may be refused, and their speed and summation order are unchecked",
                RuntimeWarning,
                stacklevel=2,
            )
    return text


def iree_version(part: str) -> str | None:
    """The version of the installed `compiler` or `runtime`; None where it is not installed."""
    found = re.search(r'^VERSION = "(.*)"', _version_file(part) or "", re.MULTILINE)
    return found.group(1) if found else None


def _version_file(part: str) -> str | None:
    """The text of the part's `version.py`, read instead of imported; `importlib.metadata` would take 15 ms."""
    import iree

    folder = "_runtime_libs" if part == "runtime" else part  # `iree/runtime/version.py` only points there
    for root in iree.__path__:
        try:
            return (Path(root) / folder / "version.py").read_text()
        except OSError:
            continue
    return None


@functools.cache
def host_cpu() -> str:
    """What `--iree-llvmcpu-target-cpu=host` depends on: the processor's model and features."""
    try:
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            first = file.read(1 << 14).split(b"\n\n")[0]  # of the first core only: the whole file is slow where cores are many
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    kept = (b"vendor_id", b"cpu family", b"model", b"stepping", b"flags", b"Features", b"CPU ")
    return b"\n".join(line for line in first.splitlines() if line.startswith(kept)).decode(errors="replace")


@functools.cache
def source_digest() -> bytes:
    """SHA-256 over this package's sources: a changed schedule must not find the kernels of the old one."""
    import hashlib

    digest = hashlib.sha256()
    root = Path(__file__).parent
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.digest()
