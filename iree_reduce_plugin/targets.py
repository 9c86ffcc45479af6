"""The targets: what IREE calls them, the driver that runs them, and the limits that a tuning must keep."""

from __future__ import annotations

from dataclasses import dataclass

from .errors import InputError

CPU_STACK_BYTES = 1 << 18  # of a CPU kernel: the accumulators of one row, which it may hold twice


@dataclass(frozen=True)
class Target:
    """One target. The limits are None on the CPU, which has no lanes or shared memory.

    Source of the GPU numbers: IREE's `KnownTargets.cpp`, which follows AMD's CDNA and RDNA documents; the registers are those of LLVM's
    `AMDGPUBaseInfo` (512 a lane on gfx90a and later CDNA, 1536 a lane of a wave of 32 on gfx11 and gfx12).
    """

    name: str
    backend: str  # of `--iree-hal-target-device`
    driver: str  # of the IREE runtime
    subgroup_sizes: tuple[int, ...] | None = None
    max_threads: int | None = None  # of a workgroup
    shared_memory: int | None = None  # bytes a workgroup
    registers: int | None = None  # 32-bit vector registers of a SIMD for each lane of the smallest subgroup; None: not known
    compute_units: int | None = None
    max_workgroups: int = (1 << 31) - 1  # of a dispatch, in one dimension

    @property
    def is_gpu(self) -> bool:
        return self.subgroup_sizes is not None

    @property
    def is_rocm(self) -> bool:
        return self.backend == "hip"

    def longest_vector(self, element_bytes: int) -> int | None:
        """The longest vector of such elements that the backend takes; None: any. SPIR-V has no longer one than of 4, and IREE cuts those
        of more than 16 bytes in two.

        >>> TARGETS["vulkan8"].longest_vector(4), TARGETS["vulkan8"].longest_vector(8), TARGETS["gfx942"].longest_vector(8)
        (4, 2, None)
        """
        return min(4, 16 // element_bytes) if self.backend == "vulkan" else None

    def registers_of(self, workgroup_size: int, subgroup_size: int) -> int:
        """32-bit registers that a lane can have where a workgroup of that size shares the four SIMDs of a compute unit: 256 at most.

        >>> TARGETS["gfx942"].registers_of(1024, 64), TARGETS["gfx942"].registers_of(256, 64)
        (128, 256)
        """
        if self.registers is None:
            return 256
        waves = -(-workgroup_size // (subgroup_size * 4))  # of one SIMD
        return min(256, self.registers * min(self.subgroup_sizes or (1,)) // (subgroup_size * waves))

    @property
    def ordered_clusters(self) -> bool:
        """Whether a cluster reduction combines as a balanced tree over ascending lane bits; elsewhere its order is the driver's."""
        return self.is_rocm

    @property
    def description(self) -> str | None:
        """The target as IREE's `#hal.device.target`, where no flag of `iree-compile` names it; else None."""
        template = {"vulkan": _VULKAN, "cuda": _CUDA}.get(self.backend)
        return None if template is None else template.format(self=self)


# A device of Vulkan 1.3 with 64-bit numbers and shuffles. IREE's own names for Vulkan targets fix the subgroup size of each.
_VULKAN = (
    '#hal.device.target<"vulkan", [#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb", {{iree_codegen.target_info = '
    '#iree_gpu.target<arch = "{self.name}", features = "spirv:v1.6,cap:Shader,cap:PhysicalStorageBufferAddresses,'
    'cap:PhysicalStorageBuffer64,cap:Int64,cap:Float64", wgp = <compute = fp64|fp32|fp16|int64|int32|int16|int8, '
    "storage = b64|b32|b16|b8, subgroup = shuffle|arithmetic, dot = dp4xi8toi32, subgroup_size_choices = [{self.subgroup_sizes[0]}], "
    "max_workgroup_sizes = [1024, 1024, 1024], max_thread_count_per_workgroup = {self.max_threads}, "
    "max_workgroup_memory_bytes = {self.shared_memory}, max_workgroup_counts = [65535, 65535, 65535]>>}}>]> : !hal.device"
)


# IREE's own flag for CUDA targets knows no architecture after sm_89.
_CUDA = (
    '#hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb", {{iree_codegen.target_info = '
    '#iree_gpu.target<arch = "{self.name}", features = "+ptx78", wgp = <compute = fp64|fp32|fp16|int64|int32|int16|int8, '
    "storage = b64|b32|b16|b8, subgroup = shuffle|arithmetic, subgroup_size_choices = [{self.subgroup_sizes[0]}], "
    "max_workgroup_sizes = [1024, 1024, 1024], max_thread_count_per_workgroup = {self.max_threads}, "
    "max_workgroup_memory_bytes = {self.shared_memory}, max_workgroup_counts = [2147483647, 65535, 65535]>>}}>]> : !hal.device"
)


def _sm(name: str) -> Target:
    return Target(name, "cuda", "cuda", (32,), 1024, 48 * 1024)


def _vulkan(subgroup_size: int) -> Target:
    return Target(f"vulkan{subgroup_size}", "vulkan", "vulkan", (subgroup_size,), 1024, 32 * 1024, None, None, 65535)


def _gfx(name: str, subgroup_sizes: tuple[int, ...], registers: int, compute_units: int, shared_memory: int = 64 * 1024) -> Target:
    return Target(name, "hip", "hip", subgroup_sizes, 1024, shared_memory, registers, compute_units)


TARGETS = {
    t.name: t
    for t in (
        Target("cpu", "local", "local-task"),
        _gfx("gfx90a", (64,), 512, 110),
        _gfx("gfx942", (64,), 512, 304),
        _gfx("gfx950", (64,), 512, 256, 160 * 1024),
        _gfx("gfx1100", (32, 64), 1536, 96),
        _gfx("gfx1201", (32, 64), 1536, 64),
        *map(_vulkan, (4, 8, 16, 32, 64)),
        *map(_sm, ("sm_80", "sm_86", "sm_89", "sm_90")),
    )
}


def find_target(name: str) -> Target:
    """The target of that name; InputError names the known ones, and the nearest."""
    if isinstance(name, str) and name in TARGETS:
        return TARGETS[name]
    import difflib  # only here: every call would pay for it

    near = difflib.get_close_matches(str(name), TARGETS, 1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    raise InputError(f"target {name!r} is not known{hint}: use one of {', '.join(TARGETS)}")
