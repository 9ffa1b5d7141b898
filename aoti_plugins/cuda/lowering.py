"""What the shared pipeline needs to know of CUDA."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from aoti_plugins import compile_specs as specs
from aoti_plugins.cpu.lowering import RUNTIME_LIBRARY as CORE_LIBRARY
from aoti_plugins.cuda import toolkit
from aoti_plugins.cuda.attention.target import AttentionTarget, attention_target
from aoti_plugins.cuda.kernel_image import kernel_image
from aoti_plugins.cuda.target import (
    NATIVE,
    PORTABLE,
    CudaTarget,
    cuda_target_of,
    device_target,
)
from aoti_plugins.lowering.artifacts.shared_object import BlobHeaders
from aoti_plugins.lowering.device import Device
from aoti_plugins.lowering.inductor.capture import GeneratedCode
from aoti_plugins.lowering.inductor.gpu.properties import GpuProperties
from aoti_plugins.types import Target

if TYPE_CHECKING:
    from executorch.exir.backend.compile_spec_schema import CompileSpec

RUNTIME_LIBRARY = "libexecutorch_backend_aoti_cuda.so"

INDUCTOR_OPTIONS = {
    # A blob holds its kernels.
    "aot_inductor.embed_kernel_binary": True,
    # Computes with weights on the device, which need not be there.
    "joint_graph_constant_folding": False,
    # Timings of other lowerings, other GPUs or no GPU at all are no guide.
    "autotune_local_cache": False,
    "autotune_remote_cache": False,
    "triton.autotune_at_compile_time": True,
    # Worker processes would look for a GPU.
    "compile_threads": 1,
}


def inductor_options(compile_specs: Sequence[CompileSpec]) -> dict[str, Any]:
    """Inductor's options for one delegate."""
    options = specs.decode(compile_specs)
    return {**INDUCTOR_OPTIONS, "max_autotune": options.max_autotune}


@contextlib.contextmanager
def environment(target: Target) -> Iterator[None]:
    """Patches under which Inductor generates for a GPU, which need not be there."""
    from aoti_plugins.lowering.inductor.gpu.autotune_block import autotune_block_on_fakes

    gpu = cuda_target_of(target)
    with _described(gpu), autotune_block_on_fakes():
        yield


@contextlib.contextmanager
def probe_environment(target: Target) -> Iterator[None]:
    """The same without compiling a kernel."""
    from aoti_plugins.lowering.inductor.gpu.no_compilation import no_kernel_compilation

    with _described(cuda_target_of(target)), no_kernel_compilation():
        yield


@contextlib.contextmanager
def _described(gpu: CudaTarget) -> Iterator[None]:
    from aoti_plugins.lowering.inductor.gpu.described import described_gpu
    from aoti_plugins.lowering.inductor.gpu.fake_tensors import no_device_init
    from aoti_plugins.lowering.inductor.gpu.fresh_kernels import fresh_kernels
    from aoti_plugins.lowering.inductor.gpu.line_info import no_line_info
    from aoti_plugins.lowering.inductor.gpu.patterns import patterns_on_cpu
    from aoti_plugins.lowering.inductor.gpu.triton_driver import triton_driver
    from aoti_plugins.lowering.inductor.libtorch_only import no_onednn
    from aoti_plugins.lowering.inductor.vector_isa import vector_isa

    properties = gpu_properties(gpu)
    with contextlib.ExitStack() as stack:
        stack.enter_context(no_onednn())
        stack.enter_context(vector_isa("scalar"))
        stack.enter_context(no_device_init())
        stack.enter_context(described_gpu(properties))
        stack.enter_context(triton_driver(properties, _registers_and_spills))
        stack.enter_context(no_line_info())
        stack.enter_context(fresh_kernels())
        stack.enter_context(
            attention_target(
                AttentionTarget(gpu.capability, gpu.multiprocessors, gpu.shared_memory_per_block)
            )
        )
        stack.enter_context(patterns_on_cpu())
        yield


def _registers_and_spills(binary: bytes, kernel: str) -> tuple[int, int]:
    del binary, kernel
    return 32, 0


def gpu_properties(gpu: CudaTarget) -> GpuProperties:
    """A target in PyTorch's words."""
    bus_bits = 4096  # only its product with the clock is known, and only that counts
    return GpuProperties(
        name=gpu.name,
        major=gpu.capability[0],
        minor=gpu.capability[1],
        multi_processor_count=gpu.multiprocessors,
        total_memory=gpu.memory_nbytes,
        regs_per_multiprocessor=gpu.registers_per_multiprocessor,
        max_threads_per_multi_processor=gpu.max_threads_per_multiprocessor,
        shared_memory_per_block_optin=gpu.shared_memory_per_block,
        shared_memory_per_multiprocessor=gpu.shared_memory_per_multiprocessor,
        L2_cache_size=gpu.l2_nbytes,
        clock_rate=round(gpu.sm_clock_hz / 1e3),
        memory_clock_rate=round(gpu.memory_bandwidth * 8 / bus_bits / 2 / 1e3),
        memory_bus_width=bus_bits,
    )


def features(target: Target, code: GeneratedCode) -> tuple[str, ...]:
    """What a GPU must have; must match native/src/cuda/."""
    shared = max((kernel.shared_nbytes for kernel in code.gpu_kernels), default=0)
    return (*target.features, f"shared_memory_{shared}")


def headers() -> BlobHeaders:
    """CUDA's headers, and our names for the driver's functions."""
    return BlobHeaders(
        preludes=("aoti_plugins/blob_prelude.h", "aoti_plugins/cuda_blob_prelude.h"),
        include_dirs=(toolkit.include_dir(),),
        defines=("USE_CUDA",),
    )


def default_target() -> str:
    """The GPU of this machine; without one, code that every supported GPU can run."""
    return NATIVE if device_target() is not None else PORTABLE


CUDA = Device(
    name="cuda",
    runtime_libraries=(RUNTIME_LIBRARY, CORE_LIBRARY),
    environment=environment,
    probe_environment=probe_environment,
    default_target=default_target,
    torch_device="cuda:0",
    headers=headers,
    kernel_image=kernel_image,
    features=features,
    check_tools=toolkit.check,
)
