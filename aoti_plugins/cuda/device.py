"""NVIDIA GPUs as a device."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from aoti_plugins.compile_specs import LoweringOptions
from aoti_plugins.cuda import target as cuda_target
from aoti_plugins.device import Device, later, later_value
from aoti_plugins.lowering.aten_kernels import (
    COLLECTIVES,
    FLOATS,
    RECURRENT_LAYER,
    usual_kernels,
)
from aoti_plugins.lowering.passes import own_pass
from aoti_plugins.native_files import on_core
from aoti_plugins.types import GraphPass, Target

if TYPE_CHECKING:
    from torch._ops import OpOverload

INDUCTOR_OPTIONS: Mapping[str, Any] = {
    # A blob holds its kernels.
    "aot_inductor.embed_kernel_binary": True,
    # Computes with weights on the device, which need not be there.
    "joint_graph_constant_folding": False,
    # Timings of other lowerings, other GPUs or no GPU at all are no guide.
    "autotune_local_cache": False,
    "autotune_remote_cache": False,
    "triton.autotune_at_compile_time": True,
    # torchao's quantize_ turns it on for the process: programs would depend on what ran before.
    "coordinate_descent_tuning": False,
}


def _inductor_options(options: LoweringOptions) -> Mapping[str, Any]:
    return {**INDUCTOR_OPTIONS, "max_autotune": options.max_autotune}


def _targets() -> Iterable[Target]:
    """The table of GPUs, and the GPU of this machine."""
    yield from cuda_target.TARGETS
    here = cuda_target.device_target()
    if here is not None:
        yield cuda_target.as_target(here)


def _passes(options: LoweringOptions) -> Iterable[GraphPass]:
    """Attention, products of few rows and with small weights to our kernels."""
    own = functools.partial(own_pass, "cuda")
    capabilities = _capabilities(options)
    has_row_kernel = all(one >= (9, 0) for one in capabilities)
    yield own("token_attentions", after="restore_views", before="attention_to_triton")
    yield own("attention_to_triton", after="restore_views")
    yield own("routers", after="restore_views")
    experts = functools.partial(own, after="chosen_matrices", before="gathered_rows")
    yield experts("expert_linears", has_row_kernel=has_row_kernel)
    yield own_pass("lowering", "scaled_products", after="gathered_rows")
    has_half_scales = all(one == (9, 0) for one in capabilities)
    yield own("small_weights", after="scaled_products", has_half_scales=has_half_scales)
    yield own("q6_k_linears", after="gathered_rows")
    yield own("float_linears", after="small_weights")
    yield own("float_rows", after="float_linears")
    yield own("rows_of_tiles", after="small_weights")
    yield own("fused_linears", after="rows_of_tiles")
    linears = functools.partial(own, after="fused_linears", before="separate_bias")
    yield linears("reduced_linears", has_row_kernel=has_row_kernel)
    if has_row_kernel:
        yield linears("row_linears")
    yield own("separate_bias", after="fused_linears")


def _capabilities(options: LoweringOptions) -> set[tuple[int, int]]:
    """The compute capabilities of the GPUs to lower for; 0.0 for one that is not known.

    A pass runs once for all of them. Those from 9.0 on copy to shared memory by themselves; older
    ones have no kernel for ``row_linear`` that is as fast as what Inductor generates.
    """
    from aoti_plugins.plugin_system.manager import get_manager

    targets = CUDA.resolve(options.targets, get_manager().targets(CUDA.name))
    gpus = [target.properties.get(cuda_target.GPU_PROPERTY) for target in targets]
    return {(0, 0) if gpu is None else gpu.capability for gpu in gpus}


def _decompositions() -> Mapping[OpOverload, Callable[..., Any]]:
    from aoti_plugins.cuda.embedding_bags.decompositions import DECOMPOSITIONS
    from aoti_plugins.cuda.q6_k_linear import DECOMPOSITIONS as OF_Q6_K
    from aoti_plugins.cuda.small_weights.rows_of_tiles import DECOMPOSITIONS as OF_TILES
    from aoti_plugins.lowering.decompositions import CUDA_DECOMPOSITIONS

    return {**CUDA_DECOMPOSITIONS, **DECOMPOSITIONS, **OF_TILES, **OF_Q6_K}


CUDA = Device(
    name="cuda",
    backend=later_value("aoti_plugins.cuda.backend:AotiCudaBackend"),
    partitioner=later_value("aoti_plugins.cuda.partitioner:CudaPartitioner"),
    libraries=on_core("libexecutorch_backend_aoti_cuda.so"),
    targets=_targets,
    default_target=cuda_target.default_target,
    torch_device="cuda:0",
    environment=later("aoti_plugins.cuda.lowering:environment"),
    probe_environment=later("aoti_plugins.cuda.lowering:probe_environment"),
    check_target=later("aoti_plugins.cuda.lowering:check_target"),
    check_tools=later("aoti_plugins.cuda.toolkit:check"),
    decompositions=_decompositions,
    kernels={
        **COLLECTIVES,
        **usual_kernels(FLOATS, products=FLOATS),
        "aten::histc": FLOATS,
        RECURRENT_LAYER: FLOATS,
        "aoti_plugins::fused_linear": ("float16", "bfloat16"),
        "aoti_plugins::chosen_experts": ("float16", "bfloat16", "float32"),
        "aoti_plugins::expert_linear": ("float16", "bfloat16"),
        "aoti_plugins::q6_k_linear": ("bfloat16",),
        "aoti_plugins::row_linear": ("float16", "bfloat16"),
        "aoti_plugins::linear_all_reduce": ("float16", "bfloat16"),
        "aoti_plugins::token_attention": ("float16", "bfloat16"),
        "aoti_plugins::attended_range": ("bool",),
        "aoti_plugins::drawn_token": ("float64",),
        **dict.fromkeys(
            (f"executorch_cuda::int{bits}_plain_mm" for bits in (4, 5, 6, 8)), ("bfloat16",)
        ),
    },
    passes=_passes,
    inductor_options=_inductor_options,
    headers=later("aoti_plugins.cuda.lowering:headers"),
    kernel_image=later("aoti_plugins.cuda.kernel_image:kernel_image"),
    features=later("aoti_plugins.cuda.lowering:features"),
    payload_flags=later("aoti_plugins.cuda.lowering:payload_flags"),
)
