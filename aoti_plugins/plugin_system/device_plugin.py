"""The plugin of a device: answers the hooks with what the ``Device`` holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from aoti_plugins import compile_specs as specs
from aoti_plugins.device import Device
from aoti_plugins.hooks import hookimpl
from aoti_plugins.types import FallbackKernel, GraphPass, Target

if TYPE_CHECKING:
    from executorch.exir.backend.backend_details import PreprocessResult
    from executorch.exir.backend.compile_spec_schema import CompileSpec
    from torch._ops import OpOverload
    from torch.export import ExportedProgram


class DevicePlugin:
    """A plugin like any other, made of a device.

    Attributes:
        device: answers are about this one alone.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.AOTI_PLUGINS_API = device.api

    @hookimpl(trylast=True)
    def aoti_preprocess(
        self,
        device: str,
        edge_program: ExportedProgram,
        compile_specs: list[CompileSpec],
        method: str,
    ) -> PreprocessResult | None:
        """Lower with the shared pipeline."""
        if device != self.device.name:
            return None
        from aoti_plugins.lowering.pipeline import lower

        return lower(self.device, edge_program, compile_specs, method)

    @hookimpl
    def aoti_fallback_kernels(self, device: str) -> Iterable[FallbackKernel]:
        """The delegate's own kernels."""
        if device != self.device.name:
            return ()
        from aoti_plugins.lowering.aten_kernels import aten_kernel

        kernels = self.device.kernels.items()
        return [aten_kernel(self.device.torch_type, op, dtypes) for op, dtypes in kernels]

    @hookimpl
    def aoti_graph_passes(
        self, device: str, compile_specs: list[CompileSpec]
    ) -> Iterable[GraphPass]:
        """From the edge dialect to ATen, one rank's constants, views for copies, the device's own.

        Last, what these left of weights of few bits, and what is compared.
        """
        if device != self.device.name:
            return ()
        from aoti_plugins.lowering.passes import own_pass
        from aoti_plugins.lowering.passes.compared_values import compared_values
        from aoti_plugins.lowering.passes.edge_to_aten import edge_to_aten
        from aoti_plugins.lowering.passes.packed_weights import packed_weights
        from aoti_plugins.lowering.ranks import parts

        first = GraphPass("aoti_plugins.edge_to_aten", edge_to_aten)
        ranks = GraphPass(
            "aoti_plugins.parts_of_constants",
            parts.parts_of_constants,
            after=(first.name,),
            handles=parts.is_replaced,
        )
        shared = partial(own_pass, "lowering")
        views = shared("restore_views", after="parts_of_constants")
        bits = shared("constants_as_bits", after="restore_views")
        numbers = shared("equal_numbers", after="constants_as_bits")
        equal = shared("equal_weights", after="equal_numbers")
        chosen = shared("chosen_matrices", after="equal_weights", before="gathered_rows")
        rows = shared("gathered_rows", after="equal_weights")
        norms = shared("norms_of_one", after="gathered_rows")
        own = tuple(self.device.passes(specs.decode(compile_specs)))
        matched = (rows.name, *(one.name for one in own))
        compared = GraphPass("aoti_plugins.compared_values", compared_values, after=matched)
        last = GraphPass("aoti_plugins.packed_weights", packed_weights, after=matched)
        return (
            first,
            ranks,
            views,
            bits,
            numbers,
            equal,
            chosen,
            rows,
            norms,
            *own,
            compared,
            last,
        )

    @hookimpl
    def aoti_decompositions(self, device: str) -> Mapping[OpOverload, Callable[..., Any]]:
        """Ops that Inductor does not generate, in terms of ops that it does."""
        if device != self.device.name:
            return {}
        from aoti_plugins.lowering.decompositions import of_libraries

        return {**self.device.decompositions(), **of_libraries()}

    @hookimpl
    def aoti_inductor_options(
        self, device: str, compile_specs: list[CompileSpec]
    ) -> Mapping[str, Any]:
        """Options that the device's blobs need."""
        if device != self.device.name:
            return {}
        return self.device.inductor_options(specs.decode(compile_specs))

    @hookimpl
    def aoti_targets(self, device: str) -> Iterable[Target]:
        """What one can lower for."""
        return self.device.targets() if device == self.device.name else ()
