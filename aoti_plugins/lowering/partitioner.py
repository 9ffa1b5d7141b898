"""What the partitioner classes of all devices have in common."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import Partitioner, PartitionResult
from torch.export import ExportedProgram

from aoti_plugins.compile_specs import LoweringOptions, encode
from aoti_plugins.device import Device
from aoti_plugins.errors import LoweringError
from aoti_plugins.lowering import stage_display
from aoti_plugins.lowering.forecast import Forecast, Recorder
from aoti_plugins.lowering.layers.reader import config_of_sole_reader
from aoti_plugins.lowering.new_objects import only_new_objects
from aoti_plugins.lowering.partitioning import Plan
from aoti_plugins.plugin_system.manager import get_manager

if TYPE_CHECKING:
    import torch

_EDGE = "EDGE"


class DevicePartitioner(Partitioner):
    """Asks the plan of one device; subclasses turn their arguments into compile specs.

    A partitioner is what its compile specs say, so that is what copies and pickles of it keep: they
    look targets and plugins up anew where they are made, and share nothing with the original.

    Args:
        device: the device to lower for.
        compile_specs: the options, in place of all that follow.
        target: name of a target.
        targets: several of them.
        external_data: whether the weights go into a data file, or its tag.
        exclude: ops that stay outside.
        options: the rest of ``LoweringOptions``.

    Raises:
        LoweringError: the options do not fit together or parse, or name no target.
    """

    def __init__(
        self,
        device: Device,
        compile_specs: Sequence[CompileSpec] | None,
        *,
        target: str | None = None,
        targets: Sequence[str] = (),
        external_data: bool | str = False,
        exclude: Sequence[str] = (),
        **options: Any,
    ) -> None:
        super().__init__()
        tag = f"aoti_{device.name}_blob" if external_data is True else external_data or ""
        chosen = LoweringOptions(
            targets=_one_list(target, targets),
            external_data=tag,
            exclude=tuple(exclude),
            **options,
        )
        if compile_specs is not None and chosen != LoweringOptions():
            raise LoweringError(
                "give the options either as arguments or as compile_specs, not both"
            )
        specs = encode(chosen) if compile_specs is None else list(compile_specs)
        self._device = device
        self._plan = Plan(device, specs)
        self.delegation_spec = self._plan.delegation_spec

    def plan(self, exported: ExportedProgram | Mapping[str, ExportedProgram]) -> Forecast:
        """Find out what lowering with this partitioner would do.

        Inductor is asked about every op, as in lowering; nothing is compiled and nothing warned of.
        That takes seconds.

        Args:
            exported: what ``torch.export.export`` gave, or several methods by name.

        Raises:
            AotiPluginsError: what lowering would end with before it compiles.
            TypeError: it is no exported program.

        Example:
            >>> found = CpuPartitioner().plan(exported)                # doctest: +SKIP
            >>> found.is_whole, found.weights_nbytes                   # doctest: +SKIP
            (True, 4198400)
        """
        methods = exported if isinstance(exported, Mapping) else {"forward": exported}
        for program in methods.values():
            if not isinstance(program, ExportedProgram):
                raise TypeError(
                    "plan takes what torch.export.export gave, or several of these by name; found "
                    f"{type(program).__name__}"
                )
        silent = copy.copy(self)
        silent._plan.is_forecast = True
        recorder = Recorder(silent._plan.support)
        with get_manager().registered(recorder, f"forecast-{id(recorder)}"):
            edge = to_edge_transform_and_lower(
                dict(methods),
                partitioner=[silent],
                compile_config=EdgeCompileConfig(_check_ir_validity=False),
            )
        outside = {n: tuple(silent._plan.refusals(edge.exported_program(n))) for n in methods}
        return Forecast(self._device.name, tuple(recorder.delegates), outside)

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tag the nodes of an edge program that this delegate takes."""
        with self._asking():
            return self._plan.partition(exported_program)

    def transform_for_pre_decomposition(self, exported_program: ExportedProgram) -> ExportedProgram:
        """Decompose ops that no edge program may hold, where a plugin says how.

        Equal layers become one op each, where nobody else reads the program.
        """
        with self._asking():
            program = self._plan.decompose_unknown_ops(exported_program)
        self._plan.compile_ahead()
        config = config_of_sole_reader(self)
        if config is None:
            return program
        with self._asking():
            return self._plan.fold_layers(program, config)

    def ops_to_not_decompose(
        self, ep: ExportedProgram
    ) -> tuple[list[torch._ops.OpOverload], Callable[[torch.fx.Node], bool] | None]:
        """Ops that Inductor handles better whole, wherever this program uses them.

        Called by ExecuTorch, with a copy of the user's program: ops that ExecuTorch would refuse
        get names of ours in it. It asks last about the edge program, when all delegates have taken
        what they take.

        Raises:
            LoweringError: in the edge program an op is left that ExecuTorch has no kernel for.
        """
        with self._asking():
            if ep.dialect == _EDGE:
                self._plan.forget_layers()
                self._plan.check_kernels(ep)
            return self._plan.ops_to_keep_whole(ep), None

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Show that Inductor is asked about ops, which may take seconds."""
        shown = stage_display.waiting(f"{self._device.name}: asking which ops can be delegated")
        with shown, only_new_objects():
            yield

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        specs = tuple((spec.key, spec.value) for spec in self.delegation_spec.compile_specs)
        return _made_again, (type(self), specs)


def _one_list(target: str | None, targets: Sequence[str]) -> tuple[str, ...]:
    """Merge ``target=`` and ``targets=``."""
    if isinstance(targets, str):
        raise LoweringError(f"targets is a list of names; for one use target={targets!r}")
    if target is not None and targets:
        raise LoweringError("give either target or targets, not both")
    return (target,) if target is not None else tuple(targets)


def _made_again(
    partitioner: Callable[..., Any], specs: tuple[tuple[str, bytes], ...]
) -> DevicePartitioner:
    made: DevicePartitioner = partitioner(compile_specs=[CompileSpec(*spec) for spec in specs])
    return made
