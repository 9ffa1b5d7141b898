"""GPUs one can lower for.

A ``CudaTarget`` says what a lowering has to know of a GPU that need not be there: which code it
runs, what fits into one multiprocessor, how fast memory and arithmetic are. A hook package adds one
through ``aoti_targets``::

    @hookimpl
    def aoti_targets(device):
        if device != "cuda":
            return ()
        return (as_target(dataclasses.replace(target_by_name("h100"), name="acme-h100",
                                              sm_clock_hz=1.2e9)),)

Where the figures of the table come from:

- Threads, blocks, registers and shared memory: CUDA C++ Programming Guide, appendix "Compute
  Capabilities", table "Technical Specifications per Compute Capability". It leaves 1 KiB of the
  shared memory of a multiprocessor to the system for each resident block.
- A100: "NVIDIA A100 Tensor Core GPU Architecture" (whitepaper 2020), table 4, and the datasheet of
  the 80 GB SXM4 module (2039 GB/s).
- RTX 3090: "NVIDIA Ampere GA102 GPU Architecture" (whitepaper), appendix A, table 9.
- L4, L40S: their datasheets; figures "with sparsity" halved. RTX 4090 and the caches of both:
  "NVIDIA Ada GPU Architecture" (whitepaper), appendix A.
- RTX 5090: "NVIDIA RTX Blackwell GPU Architecture" (whitepaper), appendix A.
- H100: "NVIDIA H100 Tensor Core GPU Architecture" (whitepaper 2022), table 3, SXM5; the clock is
  the highest that the driver reports (nvidia-smi: 1980 MHz). H200: datasheet; L2 as the driver
  reports it (60 MB).
- GH200: "NVIDIA GH200 Grace Hopper Superchip" datasheet, 96 GB; the rest as H200.
- B200: "NVIDIA HGX B200" datasheet, a single GPU of eight, figures "with sparsity" halved;
  multiprocessors (148), L2 (126 MB) and clock as the driver reports them.
- AGX Orin 64GB: "NVIDIA Jetson AGX Orin Series Technical Brief" 1.2 (INT8 without sparsity from
  170 sparse TOPS of the GPU; half of it for f16, a quarter for tf32).
- AGX Thor (T5000): "NVIDIA Jetson Thor Series Modules Data Sheet" (1035 sparse FP8 TFLOPS, half
  without sparsity, half of that for f16); multiprocessors (20) and L2 (32 MB) as the driver
  reports them.
- float64: the same whitepapers; on GPUs that NVIDIA does not sell for it, 2 units per
  multiprocessor (Programming Guide, "Throughput of Native Arithmetic Instructions"). For Thor this
  is an assumption.

Rates of tensor cores are dense and accumulate in float32 (int32 for int8). Memory is the size on
the datasheet; what a program can use is a little less.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import Any

from aoti_plugins.errors import LoweringError, UnsupportedError
from aoti_plugins.types import Target

NATIVE = "native"
"""Name of the target that describes the GPU of this machine."""

PORTABLE = "portable"
"""Name of the target whose programs run on every GPU from compute capability 8.0 on."""

GPU_PROPERTY = "gpu"
"""Key of ``Target.properties`` that holds the ``CudaTarget``."""

FLOAT8_CAPABILITY = (8, 9)
"""The first compute capability with floats of 8 bits."""

_KIB = 1024
_MIB = 1024 * _KIB
_GB = 10**9
_TERA = 1e12

WARP_SIZE = 32


@dataclass(frozen=True)
class CudaTarget:
    """A GPU, as far as a lowering needs to know it.

    Attributes:
        name: what a user writes as ``target=``.
        capability: compute capability, (major, minor).
        multiprocessors: streaming multiprocessors (SMs) that are enabled.
        registers_per_multiprocessor: 32-bit registers.
        max_threads_per_multiprocessor: resident threads.
        max_blocks_per_multiprocessor: resident blocks.
        warp_schedulers: per multiprocessor; each issues one instruction of one warp per cycle.
        shared_memory_per_multiprocessor: bytes that resident blocks share.
        shared_memory_per_block: bytes one block can get, after opting in.
        l2_nbytes: bytes of second-level cache.
        memory_nbytes: bytes of device memory.
        sm_clock_hz: boost clock of the multiprocessors.
        memory_bandwidth: bytes per second between device memory and L2, the datasheet's peak.
        f16_flops: float16 and bfloat16 matrix products, operations per second.
        tf32_flops: float32 matrix products that round their inputs to tf32.
        fp8_flops: float8 matrix products; 0 where the GPU has none.
        int8_ops: int8 matrix products.
        f32_flops: float32 outside the tensor cores, a fused multiply-add counted as two.
        f64_flops: float64 outside the tensor cores.
        machine: machine of the host, ``x86_64`` or ``aarch64``.
        ptx: whether to add PTX, from which the driver makes code for newer GPUs. Only plain
            architectures have PTX that newer GPUs take; one with the suffix "a" has not.
        arch_suffix: ``"a"`` or ``""``; ``None`` for what Triton emits, "a" from capability 9.0 on.
    """

    name: str
    capability: tuple[int, int]
    multiprocessors: int
    max_threads_per_multiprocessor: int
    max_blocks_per_multiprocessor: int
    shared_memory_per_multiprocessor: int
    shared_memory_per_block: int
    l2_nbytes: int
    memory_nbytes: int
    sm_clock_hz: float
    memory_bandwidth: float
    f16_flops: float
    tf32_flops: float
    fp8_flops: float
    int8_ops: float
    f32_flops: float
    f64_flops: float
    machine: str = "x86_64"
    ptx: bool = False
    arch_suffix: str | None = None
    registers_per_multiprocessor: int = 65536
    warp_schedulers: int = 4

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name in ("ptx", "fp8_flops") or not isinstance(value, int | float):
                continue
            if value <= 0:
                raise ValueError(
                    f"CudaTarget.{field.name} of {self.name!r} must be positive, found {value}"
                )
        if self.ptx and self.arch != f"sm_{self.capability_number}":
            raise ValueError(
                f"CudaTarget {self.name!r} cannot have PTX: newer GPUs refuse that of {self.arch}"
            )

    @property
    def capability_number(self) -> int:
        """Compute capability as Triton counts it: 90 for 9.0, 100 for 10.0."""
        return self.capability[0] * 10 + self.capability[1]

    @property
    def arch(self) -> str:
        """Architecture of the binaries, e.g. ``sm_80`` or ``sm_90a``."""
        number = self.capability_number
        suffix = ("a" if number >= 90 else "") if self.arch_suffix is None else self.arch_suffix
        return f"sm_{number}{suffix}"

    @property
    def max_warps_per_multiprocessor(self) -> int:
        """Resident warps per multiprocessor."""
        return self.max_threads_per_multiprocessor // WARP_SIZE

    @property
    def features(self) -> tuple[str, ...]:
        """What a GPU must offer to run the code, in the words of the payload.

        ``sm_80`` and the like are binaries for that architecture, ``compute_80`` is PTX.
        """
        ptx = (f"compute_{self.capability_number}",) if self.ptx else ()
        return (self.arch, *ptx)

    def matrix_flops(self, dtype: str) -> float:
        """Operations per second of matrix products.

        Args:
            dtype: torch dtype name of the inputs, or ``"tf32"`` for float32 rounded to it.
        """
        if dtype in ("float16", "bfloat16"):
            return self.f16_flops
        if dtype.startswith("float8"):
            return self.fp8_flops or self.f16_flops
        rates = {"tf32": self.tf32_flops, "int8": self.int8_ops, "float64": self.f64_flops}
        return rates.get(dtype, self.f32_flops)


# By compute capability: resident threads, resident blocks, shared memory of a multiprocessor and
# of a block.
_LIMITS: dict[tuple[int, int], dict[str, Any]] = {
    capability: {
        "max_threads_per_multiprocessor": threads,
        "max_blocks_per_multiprocessor": blocks,
        "shared_memory_per_multiprocessor": shared * _KIB,
        "shared_memory_per_block": (shared - 1) * _KIB,
    }
    for capability, threads, blocks, shared in (
        ((8, 0), 2048, 32, 164),
        ((8, 6), 1536, 16, 100),
        ((8, 7), 1536, 16, 164),
        ((8, 9), 1536, 24, 100),
        ((9, 0), 2048, 32, 228),
        ((10, 0), 2048, 32, 228),
        ((11, 0), 1536, 24, 228),
        ((12, 0), 1536, 24, 100),
    )
}


def _gpu(
    name: str,
    capability: tuple[int, int],
    multiprocessors: int,
    *,
    l2_mib: float,
    memory_gb: int,
    mhz: int,
    gb_per_second: float,
    f16: float,
    tf32: float,
    fp8: float,
    int8: float,
    f32: float,
    f64: float,
    machine: str = "x86_64",
) -> CudaTarget:
    """One row of the table; rates in tera-operations per second."""
    return CudaTarget(
        name=name,
        capability=capability,
        multiprocessors=multiprocessors,
        l2_nbytes=int(l2_mib * _MIB),
        memory_nbytes=memory_gb * _GB,
        sm_clock_hz=mhz * 1e6,
        memory_bandwidth=gb_per_second * 1e9,
        f16_flops=f16 * _TERA,
        tf32_flops=tf32 * _TERA,
        fp8_flops=fp8 * _TERA,
        int8_ops=int8 * _TERA,
        f32_flops=f32 * _TERA,
        f64_flops=f64 * _TERA,
        machine=machine,
        **_LIMITS[capability],
    )


# fmt: off
_A100 = _gpu("a100", (8, 0), 108, l2_mib=40, memory_gb=80, mhz=1410, gb_per_second=2039,
             f16=312, tf32=156, fp8=0, int8=624, f32=19.5, f64=9.7)

# sm_80 code and PTX. What counts is that the code fits everywhere: the shared memory, threads and
# blocks are those of capability 8.6, the smallest of all GPUs that run sm_80 code. The speeds, by
# which configurations are chosen, are those of an A100.
_PORTABLE = dataclasses.replace(_A100, name=PORTABLE, ptx=True, **_LIMITS[(8, 6)])

GPUS: tuple[CudaTarget, ...] = (
    _A100,
    _gpu("rtx3090", (8, 6), 82, l2_mib=6, memory_gb=24, mhz=1695, gb_per_second=936,
         f16=71, tf32=35.6, fp8=0, int8=284, f32=35.6, f64=0.56),
    _gpu("orin", (8, 7), 16, l2_mib=4, memory_gb=64, mhz=1300, gb_per_second=204.8,
         f16=42.5, tf32=21.2, fp8=0, int8=85, f32=5.3, f64=0.083, machine="aarch64"),
    _gpu("l4", (8, 9), 58, l2_mib=48, memory_gb=24, mhz=2040, gb_per_second=300,
         f16=121, tf32=60, fp8=242.5, int8=242.5, f32=30.3, f64=0.47),
    _gpu("l40s", (8, 9), 142, l2_mib=96, memory_gb=48, mhz=2520, gb_per_second=864,
         f16=362, tf32=183, fp8=733, int8=733, f32=91.6, f64=1.43),
    _gpu("rtx4090", (8, 9), 128, l2_mib=72, memory_gb=24, mhz=2520, gb_per_second=1008,
         f16=165.2, tf32=82.6, fp8=330.3, int8=660.6, f32=82.6, f64=1.29),
    _gpu("h100", (9, 0), 132, l2_mib=50, memory_gb=80, mhz=1980, gb_per_second=3352,
         f16=989.4, tf32=494.7, fp8=1978.9, int8=1978.9, f32=66.9, f64=33.5),
    _gpu("h200", (9, 0), 132, l2_mib=60, memory_gb=141, mhz=1980, gb_per_second=4800,
         f16=989.4, tf32=494.7, fp8=1978.9, int8=1978.9, f32=66.9, f64=33.5),
    _gpu("gh200", (9, 0), 132, l2_mib=60, memory_gb=96, mhz=1980, gb_per_second=4000,
         f16=989.4, tf32=494.7, fp8=1978.9, int8=1978.9, f32=66.9, f64=33.5, machine="aarch64"),
    _gpu("b200", (10, 0), 148, l2_mib=126, memory_gb=180, mhz=1965, gb_per_second=7700,
         f16=2250, tf32=1100, fp8=4500, int8=4500, f32=75, f64=37),
    _gpu("thor", (11, 0), 20, l2_mib=32, memory_gb=128, mhz=1575, gb_per_second=273,
         f16=258, tf32=129, fp8=517, int8=517, f32=8.06, f64=0.126, machine="aarch64"),
    _gpu("rtx5090", (12, 0), 170, l2_mib=96, memory_gb=32, mhz=2407, gb_per_second=1792,
         f16=209.5, tf32=104.8, fp8=419, int8=838, f32=104.8, f64=1.64),
    _PORTABLE,
)
# fmt: on


def as_target(gpu: CudaTarget) -> Target:
    """What ``aoti_targets`` returns for a GPU."""
    return Target(
        name=gpu.name,
        device="cuda",
        machine=gpu.machine,
        features=gpu.features,
        properties={GPU_PROPERTY: gpu, "cxx_flags": ()},
    )


TARGETS: tuple[Target, ...] = tuple(as_target(gpu) for gpu in GPUS)
"""The table, as the CUDA plugin offers it."""


def target_by_name(name: str) -> CudaTarget:
    """A GPU of the table.

    Raises:
        UnsupportedError: there is none of that name.
    """
    for gpu in GPUS:
        if gpu.name == name:
            return gpu
    raise UnsupportedError(
        f"no GPU {name!r} in the table; there are: {', '.join(gpu.name for gpu in GPUS)}"
    )


def cuda_target_of(target: Target) -> CudaTarget:
    """The GPU that a target describes.

    Raises:
        LoweringError: the target is not one of ``as_target``.
    """
    gpu = target.properties.get(GPU_PROPERTY)
    if not isinstance(gpu, CudaTarget):
        raise LoweringError(
            f"target {target.name!r} for device {target.device!r} does not describe a GPU: "
            f"properties[{GPU_PROPERTY!r}] is {type(gpu).__name__}, expected a CudaTarget.\n"
            "The plugin that adds it should make it with aoti_plugins.cuda.target.as_target()."
        )
    return gpu


def device_target(index: int = 0) -> CudaTarget | None:
    """Describe a GPU of this machine under the name ``native``.

    What PyTorch can tell is asked; the rest comes from the table's row of that name or compute
    capability, scaled to the number of multiprocessors.

    Args:
        index: of the CUDA device.

    Returns:
        ``None`` if PyTorch is not built for CUDA or sees no GPU; CUDA is left untouched then.
    """
    import torch

    if not torch.backends.cuda.is_built() or not torch.cuda.is_available():
        return None
    return _from_properties(torch.cuda.get_device_properties(index))


def default_target() -> str:
    """The GPU of this machine; without one, code that every supported GPU can run."""
    return NATIVE if device_target() is not None else PORTABLE


def _from_properties(found: Any) -> CudaTarget:
    """Fill in what ``torch.cuda.get_device_properties`` knows, from the nearest row the rest."""
    from aoti_plugins.cpu.target import host_machine

    known = _nearest(found.name, (found.major, found.minor))
    scale = found.multi_processor_count / known.multiprocessors
    clock = getattr(found, "clock_rate", 0) * 1e3 or known.sm_clock_hz
    rates = {
        name: getattr(known, name) * scale * clock / known.sm_clock_hz
        for name in ("f16_flops", "tf32_flops", "fp8_flops", "int8_ops", "f32_flops", "f64_flops")
    }
    # Two transfers per clock, as CUDA's samples compute it.
    bits = getattr(found, "memory_bus_width", 0)
    bits_per_second = 2e3 * getattr(found, "memory_clock_rate", 0) * bits
    return dataclasses.replace(
        known,
        name=NATIVE,
        capability=(found.major, found.minor),
        multiprocessors=found.multi_processor_count,
        registers_per_multiprocessor=found.regs_per_multiprocessor,
        max_threads_per_multiprocessor=found.max_threads_per_multi_processor,
        shared_memory_per_multiprocessor=found.shared_memory_per_multiprocessor,
        shared_memory_per_block=found.shared_memory_per_block_optin,
        l2_nbytes=found.L2_cache_size or known.l2_nbytes,
        memory_nbytes=found.total_memory,
        sm_clock_hz=clock,
        memory_bandwidth=bits_per_second / 8 or known.memory_bandwidth,
        machine=host_machine(),
        ptx=False,
        **rates,
    )


def _nearest(name: str, capability: tuple[int, int]) -> CudaTarget:
    """The row that a device's name contains, else the one of the nearest compute capability."""
    rows = [gpu for gpu in GPUS if gpu.name != PORTABLE]
    words = re.sub(r"\W", "", name).lower()
    named = [gpu for gpu in rows if gpu.name in words and gpu.capability == capability]
    if named:
        return max(named, key=lambda gpu: len(gpu.name))
    older = [gpu for gpu in rows if gpu.capability <= capability]
    if not older:
        raise UnsupportedError(
            f"GPU {name!r} has compute capability {capability[0]}.{capability[1]}; "
            f"8.0 or newer is needed"
        )
    nearest = max(gpu.capability for gpu in older)
    return next(gpu for gpu in older if gpu.capability == nearest)
