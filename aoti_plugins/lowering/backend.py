"""What every delegate's ``preprocess`` does: call ``aoti_preprocess`` for each partition."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import torch
from torch.fx import GraphModule

from aoti_plugins.compile_specs import shares_state, without_interface
from aoti_plugins.device import Device
from aoti_plugins.errors import LoweringError
from aoti_plugins.lowering import (
    assertions,
    blobs_named,
    carried_ops,
    progress,
    stage_display,
    written_buffers,
)
from aoti_plugins.lowering.layers.expanding import expand
from aoti_plugins.lowering.new_objects import only_new_objects
from aoti_plugins.plugin_system.manager import get_manager

if TYPE_CHECKING:
    from executorch.exir.backend.backend_details import PreprocessResult
    from executorch.exir.backend.compile_spec_schema import CompileSpec
    from torch.export import ExportedProgram

DEFAULT_METHOD = "forward"


class DeviceBackend:
    """What the backends of all devices have in common.

    A backend is a final class that also derives from ``BackendDetails``, directly: ExecuTorch looks
    for it by its name among the subclasses of that one.

    Attributes:
        device: the device to lower for.
    """

    device: ClassVar[Device]

    @classmethod
    def copy_exported_program_for_preprocess(
        cls, edge_program: ExportedProgram, compile_specs: list[CompileSpec]
    ) -> ExportedProgram:
        """The partition that ``preprocess`` gets: it may be changed, its tensors may not.

        ExecuTorch would copy the weights as well. Nothing writes to them while a program is
        lowered: what is stored otherwise is a tensor of its own. It runs its own partition again in
        later passes, with sizes that nobody knows: there, too, what bounds them has to come first.
        """
        del compile_specs
        for module in _graphs(edge_program):
            assertions.put_first(module)
        tables = edge_program.state_dict, edge_program.constants, edge_program._constants
        shared = [v for table in tables for v in table.values() if isinstance(v, torch.Tensor)]
        return copy.deepcopy(edge_program, {id(tensor): tensor for tensor in shared})

    @classmethod
    def preprocess(
        cls, edge_program: ExportedProgram, compile_specs: list[CompileSpec]
    ) -> PreprocessResult:
        """Lower one partition whose method is not known: it is called ``forward``."""
        results = cls.preprocess_multimethod(
            {DEFAULT_METHOD: [edge_program]}, {DEFAULT_METHOD: [compile_specs]}
        )
        return results[DEFAULT_METHOD][0]

    @classmethod
    def preprocess_multimethod(
        cls,
        edge_programs: Mapping[str, Sequence[ExportedProgram]],
        compile_specs: Mapping[str, Sequence[list[CompileSpec]]],
    ) -> dict[str, list[PreprocessResult]]:
        """Lower the partitions of all methods, in order; ExecuTorch gives the methods' names.

        Args:
            edge_programs: partitions by method.
            compile_specs: compile specs by method, one list per partition.

        Raises:
            AotiPluginsError: the lowering failed; the message says where.
        """
        sharing = _sharing(edge_programs, compile_specs)
        name = cls.device.name
        shown = stage_display.stages_shown()
        with blobs_named.one_program(), written_buffers.known(sharing), shown, only_new_objects():
            return {
                method: _preprocess_method(name, method, programs, compile_specs.get(method, ()))
                for method, programs in edge_programs.items()
            }


def _sharing(
    edge_programs: Mapping[str, Sequence[ExportedProgram]],
    compile_specs: Mapping[str, Sequence[list[CompileSpec]]],
) -> dict[str, Sequence[ExportedProgram]]:
    """The methods that are to share their state."""
    return {
        method: programs
        for method, programs in edge_programs.items()
        if all(map(shares_state, compile_specs.get(method, ())))
    }


def _preprocess_method(
    device: str,
    method: str,
    programs: Sequence[ExportedProgram],
    specs: Sequence[list[CompileSpec]],
) -> list[PreprocessResult]:
    if len(specs) != len(programs):
        raise LoweringError(
            f"method {method!r} has {len(programs)} partitions "
            f"and {len(specs)} lists of compile specs"
        )
    results = []
    for index, (program, spec) in enumerate(zip(programs, specs, strict=True)):
        options = without_interface(spec)
        expand(program)
        carried_ops.put_back(n for m in _graphs(program) for n in m.graph.nodes)
        with progress.at(progress.Place(device, method, index, len(programs))):
            results.append(get_manager().preprocess(device, program, options, method))
    return results


def _graphs(program: ExportedProgram) -> Iterator[GraphModule]:
    return (m for m in program.graph_module.modules() if isinstance(m, GraphModule))
