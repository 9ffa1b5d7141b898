"""The CPU plugin: a plugin like any other, found through the entry point ``cpu``."""

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

_DEVICE = "cpu"


@hookimpl(trylast=True)
def aoti_preprocess(
    device: str, edge_program: ExportedProgram, compile_specs: list[CompileSpec], method: str
) -> PreprocessResult | None:
    """Lower with the shared pipeline."""
    if device != _DEVICE:
        return None
    from aoti_plugins.cpu.lowering import CPU
    from aoti_plugins.lowering.pipeline import lower

    return lower(CPU, edge_program, compile_specs, method)


@hookimpl
def aoti_fallback_kernels(device: str) -> Iterable[FallbackKernel]:
    """The runtime's own kernels."""
    from aoti_plugins.cpu.fallback_kernels import KERNELS

    return KERNELS if device == _DEVICE else ()


@hookimpl
def aoti_graph_passes(device: str) -> Iterable[GraphPass]:
    """From the edge dialect to ATen, and from copies back to views."""
    if device != _DEVICE:
        return ()
    from aoti_plugins.lowering.passes.edge_to_aten import edge_to_aten
    from aoti_plugins.lowering.passes.restore_views import restore_views

    return (
        GraphPass("aoti_plugins.edge_to_aten", edge_to_aten),
        GraphPass(
            "aoti_plugins.restore_views", restore_views, after=("aoti_plugins.edge_to_aten",)
        ),
    )


@hookimpl
def aoti_decompositions(device: str) -> Mapping[OpOverload, Callable[..., Any]]:
    """Ops that Inductor does not generate, in terms of ops that it does."""
    if device != _DEVICE:
        return {}
    from aoti_plugins.lowering.decompositions import CPU_DECOMPOSITIONS, of_libraries

    return {**CPU_DECOMPOSITIONS, **of_libraries()}


@hookimpl
def aoti_inductor_options(device: str) -> Mapping[str, Any]:
    """Options that a CPU blob needs."""
    from aoti_plugins.cpu.lowering import INDUCTOR_OPTIONS

    return INDUCTOR_OPTIONS if device == _DEVICE else {}


@hookimpl
def aoti_targets(device: str) -> Iterable[Target]:
    """The CPU levels."""
    from aoti_plugins.cpu.target import TARGETS

    return TARGETS if device == _DEVICE else ()
