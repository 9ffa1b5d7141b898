"""How code for an NVIDIA GPU is generated and compiled."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import torch

from aoti_plugins.compile_specs import LoweringOptions
from aoti_plugins.cuda import toolkit
from aoti_plugins.cuda.attention.target import AttentionTarget, attention_target
from aoti_plugins.cuda.inductor.early_launch import begins_early
from aoti_plugins.cuda.inductor.properties import GpuProperties
from aoti_plugins.cuda.target import CudaTarget, cuda_target_of, device_target
from aoti_plugins.cuda.tuning.records import Records
from aoti_plugins.device import check_flags
from aoti_plugins.lowering.artifacts.shared_object import BlobHeaders
from aoti_plugins.lowering.inductor.capture import GeneratedCode
from aoti_plugins.payload import PayloadFlag
from aoti_plugins.types import Target


@contextlib.contextmanager
def environment(target: Target, options: LoweringOptions) -> Iterator[None]:
    """Patches under which Inductor generates for a GPU.

    On a machine with such a GPU, configurations are measured on it, unless the user gave records.
    Elsewhere nothing needs a GPU: records and estimates decide.
    """
    from aoti_plugins.cuda.inductor.assembler_files import assembler_files
    from aoti_plugins.cuda.inductor.small_kernels import small_kernels_together

    gpu = cuda_target_of(target)
    measured = _is_here(gpu) and not options.tuning
    chosen = _on_gpu if measured else _without_gpu
    with _common(gpu), small_kernels_together(), assembler_files(), chosen(gpu, options):
        yield


@contextlib.contextmanager
def probe_environment(target: Target, options: LoweringOptions) -> Iterator[None]:
    """Patches under which Inductor says what it would generate; no kernel is compiled."""
    from torch._inductor import config

    from aoti_plugins.cuda.inductor.no_compilation import no_kernel_compilation

    del options
    gpu = cuda_target_of(target)
    with (
        _common(gpu),
        _described(gpu),
        no_kernel_compilation(),
        config.patch(shape_padding=False),  # it would be measured
    ):
        yield


def _is_here(gpu: CudaTarget) -> bool:
    """Whether this machine has the GPU that is lowered for."""
    here = device_target()
    return here is not None and (here.capability, here.multiprocessors) == (
        gpu.capability,
        gpu.multiprocessors,
    )


@contextlib.contextmanager
def _on_gpu(gpu: CudaTarget, options: LoweringOptions) -> Iterator[None]:
    from aoti_plugins.cuda.inductor.config_choice import measured_configs
    from aoti_plugins.cuda.inductor.few_rows import ALL, few_rows_choice
    from aoti_plugins.cuda.inductor.steady_times import steady_times

    path = Path(options.save_tuning) if options.save_tuning else None
    records = Records.load([path] if path is not None and path.exists() else [])
    with steady_times(), few_rows_choice(gpu, most=ALL), measured_configs(gpu, records):
        yield
    if path is not None:
        records.save(path)


@contextlib.contextmanager
def _without_gpu(gpu: CudaTarget, options: LoweringOptions) -> Iterator[None]:
    from torch._inductor import config

    from aoti_plugins.cuda.inductor.autotune_block import autotune_block_on_fakes
    from aoti_plugins.cuda.inductor.config_choice import choose_configs

    records = Records.load(options.tuning) if options.tuning else None
    with (
        _described(gpu),
        autotune_block_on_fakes(),
        choose_configs(gpu, records),
        config.patch(compile_threads=1),  # worker processes would look for a GPU
    ):
        yield


@contextlib.contextmanager
def _common(gpu: CudaTarget) -> Iterator[None]:
    from aoti_plugins.cuda.inductor.assembler_files import pytorchs_assembler
    from aoti_plugins.cuda.inductor.convolution import (
        convolution_choices,
        convolution_layout,
    )
    from aoti_plugins.cuda.inductor.fp_fusion import joined_multiply_add
    from aoti_plugins.cuda.inductor.fresh_kernels import fresh_kernels
    from aoti_plugins.cuda.inductor.line_info import no_line_info
    from aoti_plugins.cuda.inductor.masked_atomics import masked_atomics
    from aoti_plugins.cuda.inductor.padded_views import padded_views
    from aoti_plugins.cuda.inductor.rounded_divisions import rounded_divisions
    from aoti_plugins.cuda.inductor.searches import searches_of_pytorch
    from aoti_plugins.cuda.inductor.triton_version import known_triton_version
    from aoti_plugins.lowering.inductor.libtorch_only import no_onednn
    from aoti_plugins.lowering.inductor.vector_isa import vector_isa

    attention = AttentionTarget(gpu.capability, gpu.multiprocessors, gpu.shared_memory_per_block)
    with (
        no_onednn(),
        vector_isa("scalar"),
        pytorchs_assembler(),
        convolution_layout(),
        convolution_choices(),
        no_line_info(),
        joined_multiply_add(),
        padded_views(),
        masked_atomics(),
        rounded_divisions(),
        searches_of_pytorch(),
        known_triton_version(),
        fresh_kernels(),
        attention_target(attention),
    ):
        yield


@contextlib.contextmanager
def _described(gpu: CudaTarget) -> Iterator[None]:
    from aoti_plugins.cuda.inductor.described import described_gpu
    from aoti_plugins.cuda.inductor.triton_driver import triton_driver
    from aoti_plugins.lowering.inductor.gpu.contiguous import contiguous_by_op
    from aoti_plugins.lowering.inductor.gpu.fake_tensors import no_device_init
    from aoti_plugins.lowering.inductor.gpu.indexing import indexing_by_ops
    from aoti_plugins.lowering.inductor.gpu.patterns import patterns_on_cpu

    properties = gpu_properties(gpu)
    with (
        no_device_init(),
        indexing_by_ops(),
        contiguous_by_op(),
        described_gpu(properties),
        triton_driver(properties),
        patterns_on_cpu(),
    ):
        yield


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


def features(target: Target, code: GeneratedCode, options: LoweringOptions) -> tuple[str, ...]:
    """What a GPU must have; must match native/src/cuda/."""
    del options
    shared = max((kernel.shared_nbytes for kernel in code.gpu_kernels), default=0)
    return (*target.features, f"shared_memory_{shared}")


def headers(target: Target) -> BlobHeaders:
    """CUDA's headers, and our names for the driver's functions."""
    early = ("AOTIP_EARLY_LAUNCHES",) if begins_early(cuda_target_of(target)) else ()
    return BlobHeaders(
        preludes=("aoti_plugins/blob_prelude.h", "aoti_plugins/cuda_blob_prelude.h"),
        include_dirs=(toolkit.include_dir(),),
        defines=("USE_CUDA", *early),
    )


def payload_flags(options: LoweringOptions) -> PayloadFlag:
    """Where this process lets PyTorch round float32 to TF32, the program does."""
    flags = PayloadFlag.CUDA_GRAPHS if options.cuda_graphs else PayloadFlag.NONE
    if torch.backends.cuda.matmul.allow_tf32:
        flags |= PayloadFlag.TF32_MATMUL
    if torch.backends.cudnn.allow_tf32:
        flags |= PayloadFlag.TF32_CONVOLUTION
    return flags


def check_target(target: Target) -> None:
    """Refuse a target that does not describe a GPU.

    Raises:
        LoweringError: what the properties lack.
    """
    cuda_target_of(target)
    check_flags(target)
