"""Compiles a job inside this process: the dispatch and the schedule are built, joined, and lowered stage by stage.

IREE's phases are run one after the other on the same module, which costs nothing and gives byte-identical output; between
them the IR says what the dump files would: the lowering that was chosen, the workgroup's size, the folded workgroup count.
"""

from __future__ import annotations

import ctypes
import io
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from iree.compiler import ir
from iree.compiler.api import Output, Session, ctypes_dl

from .assembly import Kernel, read_kernels
from .dispatch import build_dispatch
from .errors import CompileError
from .job import Job
from .report import check_taken, dispatch_entry
from .schedule import build_schedule
from .toolchain import compile_flags

Facts = dict[str, Any]

_SPEC = "iree_codegen.tuning_spec_mlirbc"  # where IREE looks for a schedule inside a module

_LIBRARY = ctypes_dl._dylib
for _name in ("ireeCompilerInvocationSetCompileFromPhase", "ireeCompilerInvocationSetCompileToPhase"):
    getattr(_LIBRARY, _name).argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    getattr(_LIBRARY, _name).restype = None


def make(job: Job, want: str, dump_dir: str | None) -> Any:
    """What was asked for: `artifact` gives (vmfb bytes, entries of the report), `dispatch`, `schedule` and `asm` text, `hsaco` bytes."""
    if want == "dispatch":
        return _text(job, "dispatch")
    if want == "schedule":
        return _text(job, "schedule")
    with tempfile.TemporaryDirectory(prefix="iree_reduce_") as scratch:
        if dump_dir is not None:
            dump, flags = Path(dump_dir), [f"--iree-hal-dump-executable-files-to={dump_dir}"]
            before = {path: path.stat().st_mtime_ns for path in dump.glob("*")}
        else:
            dump, flags = Path(scratch), []
            before = {}
            if job.target.is_rocm or want == "asm":
                flags.append(f"--iree-hal-dump-executable-intermediates-to={scratch}")
            if want == "hsaco":
                flags.append(f"--iree-hal-dump-executable-binaries-to={scratch}")
        vmfb, facts = _compile(job, (*compile_flags(job.target), *flags))
        written = [path for path in sorted(dump.glob("*")) if before.get(path) != path.stat().st_mtime_ns]
        if want == "asm":
            suffix = ".rocmasm" if job.target.is_rocm else ".s"
            return "".join(path.read_text() for path in written if path.suffix == suffix)
        if want == "hsaco":
            objects = [path.read_bytes() for path in written if path.suffix == ".hsaco"]
            if len(objects) != 1:
                raise CompileError(f"emit hsaco: there are {len(objects)} code objects; --dump-dir writes all of them")
            return objects[0]
        kernels: dict[str, Kernel] = {}
        for path in written:
            if path.suffix == ".rocmasm":
                kernels |= read_kernels(path.read_text())
    check_taken(job, facts, kernels)
    return vmfb, [dispatch_entry(f, kernels.get(f["kernel"])) for f in facts]


def _text(job: Job, part: str) -> str:
    with _session(()) as session, session.context, ir.Location.unknown():
        module = build_schedule(job) if part == "schedule" else build_dispatch(job)
        return str(module.operation.get_asm(assume_verified=True))


@contextmanager
def _session(flags: tuple[str, ...]) -> Iterator[Session]:
    session = Session()
    try:
        session.set_flags(*flags)
        session.context.load_all_available_dialects()  # the builders create ops of dialects that nothing has parsed yet
        yield session
    finally:
        session.close()


def _compile(job: Job, flags: tuple[str, ...]) -> tuple[bytes, list[Facts]]:
    with _session(flags) as session, session.context, ir.Location.unknown():
        module = build_dispatch(job)
        if job.has_schedule:
            module.operation.attributes[_SPEC] = _embedded(build_schedule(job))
        return _lower(session, module.operation)


def _embedded(schedule: ir.Module) -> ir.Attribute:
    """The schedule's bytecode as `dense<...> : vector<Nxi8>`."""
    stream = io.BytesIO()
    schedule.operation.write_bytecode(stream)
    data = stream.getvalue()
    # Through text: building it from a NumPy array gives a tensor, which IREE ignores without a word.
    return ir.Attribute.parse(f'dense<"0x{data.hex()}"> : vector<{len(data)}xi8>')


def _lower(session: Session, module: ir.Operation) -> tuple[bytes, list[Facts]]:
    pipelines: dict[str, str] = {}
    sizes: dict[str, Facts] = {}
    facts: list[Facts] = []
    _run(session, module, None, "executable-configurations")
    for op in _walk(module):
        if op.name == "func.func" and "translation_info" in op.attributes:
            info = str(op.attributes["translation_info"])
            pipelines[_symbol(op)] = info.partition("pipeline = ")[2].split(" ")[0].rstrip(">").removeprefix("#iree_codegen.")
    _run(session, module, "executable-configurations", "executable-targets")
    for op in _walk(module):
        if op.name == "hal.executable.export":
            sizes[_symbol(op)] = {
                "workgroup_size": [int(n) for n in op.attributes["workgroup_size"]] if "workgroup_size" in op.attributes else None,
                "subgroup_size": int(op.attributes["subgroup_size"]) if "subgroup_size" in op.attributes else None,
            }
    _run(session, module, "executable-targets", "hal")
    for op in _walk(module):
        if op.name == "hal.command_buffer.dispatch":
            kernel, count, bindings = _dispatch(op)
            facts.append(
                {
                    "kernel": kernel,
                    "workgroup_count": count,
                    **sizes.get(kernel, {"workgroup_size": None, "subgroup_size": None}),
                    "bindings": bindings,
                    "pipeline": pipelines.get(kernel),
                }
            )
    invocation = _run(session, module, "hal", "end")
    output = Output.open_membuffer()
    invocation.output_vm_bytecode(output)
    return bytes(output.map_memory()), facts


def _run(session: Session, module: ir.Operation, start: str | None, stop: str) -> Any:
    """Lowers the module in place from the end of one phase to the end of another."""
    invocation = session.invocation()
    invocation.enable_console_diagnostics()
    invocation.import_module(module)
    if start is not None:
        _LIBRARY.ireeCompilerInvocationSetCompileFromPhase(invocation._inv_p, start.encode())
    _LIBRARY.ireeCompilerInvocationSetCompileToPhase(invocation._inv_p, stop.encode())
    if not invocation.execute():
        raise Failed
    return invocation


class Failed(Exception):
    """IREE reported an error; the log has it."""


def _walk(op: ir.Operation) -> Iterator[ir.Operation]:
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield inner.operation
                yield from _walk(inner.operation)


def _symbol(op: ir.Operation) -> str:
    return str(ir.StringAttr(op.attributes["sym_name"]).value)


def _dispatch(op: ir.Operation) -> tuple[str, list[int | None], int]:
    """Kernel, workgroup count (None where it is not a constant) and number of bindings of a `hal.command_buffer.dispatch`."""
    lengths = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
    # The segments: command buffer, executable, function, x, y, z, constants, bindings, offsets, lengths.
    lookup = op.operands[sum(lengths[:2])].owner
    first = sum(lengths[:3])
    count = [_constant(op.operands[first + i]) for i in range(3)]
    return str(lookup.attributes["entry_point"]).rsplit("@", 1)[1], count, lengths[7]


def _constant(value: ir.Value) -> int | None:
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.constant":
        return None
    return int(ir.IntegerAttr(owner.attributes["value"]).value)
