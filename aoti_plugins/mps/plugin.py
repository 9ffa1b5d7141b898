"""The MPS plugin: a plugin like any other, found through the entry point ``mps``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from aoti_plugins.hooks import hookimpl
from aoti_plugins.types import FallbackKernel, GraphPass, Target

if TYPE_CHECKING:
    from executorch.exir.backend.backend_details import PreprocessResult
    from executorch.exir.backend.compile_spec_schema import CompileSpec
    from torch._ops import OpOverload
    from torch.export import ExportedProgram

AOTI_PLUGINS_API = 1

_DEVICE = "mps"


@hookimpl(trylast=True)
def aoti_preprocess(
    device: str, edge_program: ExportedProgram, compile_specs: list[CompileSpec], method: str
) -> PreprocessResult | None:
    """Lower with the shared pipeline."""
    if device != _DEVICE:
        return None
    from aoti_plugins.lowering.pipeline import lower
    from aoti_plugins.mps.lowering import MPS

    return lower(MPS, edge_program, compile_specs, method)


@hookimpl
def aoti_fallback_kernels(device: str) -> Iterable[FallbackKernel]:
    """The runtime's own kernels."""
    from aoti_plugins.mps.fallback_kernels import KERNELS

    return KERNELS if device == _DEVICE else ()


@hookimpl
def aoti_graph_passes(device: str) -> Iterable[GraphPass]:
    """From the edge dialect to ATen, from copies back to views, attention to our kernels."""
    if device != _DEVICE:
        return ()
    from aoti_plugins.lowering.passes.edge_to_aten import edge_to_aten
    from aoti_plugins.lowering.passes.restore_views import restore_views
    from aoti_plugins.mps.passes.attention_to_metal import attention_to_metal, is_replaced

    return (
        GraphPass("aoti_plugins.edge_to_aten", edge_to_aten),
        GraphPass(
            "aoti_plugins.restore_views", restore_views, after=("aoti_plugins.edge_to_aten",)
        ),
        GraphPass(
            "aoti_plugins.attention_to_metal",
            attention_to_metal,
            after=("aoti_plugins.restore_views",),
            handles=is_replaced,
        ),
    )


@hookimpl
def aoti_decompositions(device: str) -> Mapping[OpOverload, Callable[..., Any]]:
    """Ops that Inductor does not generate, and writes that would race, in terms of other ops."""
    if device != _DEVICE:
        return {}
    from aoti_plugins.lowering.decompositions import MPS_DECOMPOSITIONS, of_libraries

    return {**MPS_DECOMPOSITIONS, **of_libraries()}


@hookimpl
def aoti_inductor_options(device: str) -> Mapping[str, Any]:
    """Options that an MPS blob needs."""
    from aoti_plugins.mps.lowering import INDUCTOR_OPTIONS

    return INDUCTOR_OPTIONS if device == _DEVICE else {}


@hookimpl
def aoti_targets(device: str) -> Iterable[Target]:
    """Macs."""
    from aoti_plugins.mps.target import TARGETS

    return TARGETS if device == _DEVICE else ()
