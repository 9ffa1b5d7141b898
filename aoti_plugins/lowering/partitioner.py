"""What the partitioner classes of all devices have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import Partitioner, PartitionResult

from aoti_plugins.lowering.device import Device
from aoti_plugins.lowering.partitioning import Plan

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram


class DevicePartitioner(Partitioner):
    """Asks the plan of one device; subclasses turn their arguments into compile specs.

    A partitioner is what its compile specs say, so that is what copies and pickles of it keep: they
    look targets and plugins up anew where they are made, and share nothing with the original.

    Args:
        device: the device to lower for.
        backend_id: class name of its backend.
        compile_specs: the options; a subclass takes them as its keyword argument of this name.

    Raises:
        LoweringError: the options do not parse, or name no target.
    """

    def __init__(self, device: Device, backend_id: str, compile_specs: list[CompileSpec]) -> None:
        super().__init__()
        self._plan = Plan(device, backend_id, compile_specs)
        self.delegation_spec = self._plan.delegation_spec

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tag the nodes of an edge program that this delegate takes."""
        return self._plan.partition(exported_program)

    def transform_for_pre_decomposition(self, exported_program: ExportedProgram) -> ExportedProgram:
        """Decompose ops that no edge program may hold, where a plugin says how."""
        return self._plan.decompose_unknown_ops(exported_program)

    def ops_to_not_decompose(
        self, ep: ExportedProgram
    ) -> tuple[list[torch._ops.OpOverload], Callable[[torch.fx.Node], bool] | None]:
        """Ops that Inductor handles better whole, wherever this program uses them.

        Called by ExecuTorch, with a copy of the user's program: ops that ExecuTorch would refuse
        get names of ours in it.
        """
        return self._plan.ops_to_keep_whole(ep), None

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        specs = tuple((spec.key, spec.value) for spec in self.delegation_spec.compile_specs)
        return _made_again, (type(self), specs)


def _made_again(
    partitioner: Callable[..., Any], specs: tuple[tuple[str, bytes], ...]
) -> DevicePartitioner:
    made: DevicePartitioner = partitioner(compile_specs=[CompileSpec(*spec) for spec in specs])
    return made
