"""The CUDA plugin: a plugin like any other, found through the entry point ``cuda``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from aoti_plugins.hooks import hookimpl
from aoti_plugins.types import FallbackKernel, GraphPass, Target

if TYPE_CHECKING:
    from executorch.exir.backend.backend_details import PreprocessResult
    from executorch.exir.backend.compile_spec_schema import CompileSpec
    from torch._ops import OpOverload
    from torch.export import ExportedProgram

AOTI_PLUGINS_API = 1

_DEVICE = "cuda"


@hookimpl(trylast=True)
def aoti_preprocess(
    device: str, edge_program: ExportedProgram, compile_specs: list[CompileSpec], method: str
) -> PreprocessResult | None:
    """Lower with the shared pipeline."""
    if device != _DEVICE:
        return None
    from aoti_plugins.cuda.lowering import CUDA
    from aoti_plugins.lowering.pipeline import lower

    return lower(CUDA, edge_program, compile_specs, method)


@hookimpl
def aoti_fallback_kernels(device: str) -> Iterable[FallbackKernel]:
    """The runtime's own kernels."""
    from aoti_plugins.cuda.fallback_kernels import KERNELS

    return KERNELS if device == _DEVICE else ()


@hookimpl
def aoti_graph_passes(device: str) -> Iterable[GraphPass]:
    """Edge ops to ATen, copies back to views, attention and products of few rows to our kernels."""
    if device != _DEVICE:
        return ()
    from aoti_plugins.cuda.passes.attention_to_triton import attention_to_triton, is_replaced
    from aoti_plugins.cuda.passes.separate_bias import separate_bias
    from aoti_plugins.lowering.passes.edge_to_aten import edge_to_aten
    from aoti_plugins.lowering.passes.restore_views import restore_views

    return (
        GraphPass("aoti_plugins.edge_to_aten", edge_to_aten),
        GraphPass(
            "aoti_plugins.restore_views", restore_views, after=("aoti_plugins.edge_to_aten",)
        ),
        GraphPass(
            "aoti_plugins.attention_to_triton",
            attention_to_triton,
            after=("aoti_plugins.restore_views",),
            handles=is_replaced,
        ),
        GraphPass(
            "aoti_plugins.separate_bias", separate_bias, after=("aoti_plugins.edge_to_aten",)
        ),
    )


@hookimpl
def aoti_decompositions(device: str) -> Mapping[OpOverload, Callable[..., Any]]:
    """Ops that Inductor does not generate, and writes that would race, in terms of other ops."""
    if device != _DEVICE:
        return {}
    from aoti_plugins.cuda.bags.decompositions import DECOMPOSITIONS
    from aoti_plugins.lowering.decompositions import CUDA_DECOMPOSITIONS, of_libraries

    return {**CUDA_DECOMPOSITIONS, **DECOMPOSITIONS, **of_libraries()}


@hookimpl
def aoti_inductor_options(device: str, compile_specs: Sequence[CompileSpec]) -> Mapping[str, Any]:
    """Options that a CUDA blob needs."""
    if device != _DEVICE:
        return {}
    from aoti_plugins.cuda.lowering import inductor_options

    return inductor_options(compile_specs)


@hookimpl
def aoti_targets(device: str) -> Iterable[Target]:
    """The table of GPUs, and the GPU of this machine."""
    if device != _DEVICE:
        return ()
    from aoti_plugins.cuda.target import TARGETS, as_target, device_target

    here = device_target()
    return TARGETS if here is None else (*TARGETS, as_target(here))
