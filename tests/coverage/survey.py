"""Ask a device's partitioner how the operators of a program would be run."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from operator_case import Case, Programs
from torch.export import ExportedProgram

from aoti_plugins.compile_specs import LoweringOptions, encode
from aoti_plugins.cpu.device import CPU
from aoti_plugins.cuda.device import CUDA
from aoti_plugins.errors import LoweringError
from aoti_plugins.lowering.partitioning import Plan
from aoti_plugins.lowering.support import Verdict
from aoti_plugins.mps.device import MPS
from aoti_plugins.plugin_system.manager import get_manager

_DEVICES = {
    "cpu": (CPU, "x86_64-v3"),
    "cuda": (CUDA, "h100"),
    "mps": (MPS, "macos-arm64"),
}
DEVICES = tuple(_DEVICES)

_LAUNCHES = (
    "aoti_torch_mps_create_",
    "aoti_torch_mps_delete_",
    "aoti_torch_mps_dispatch_",
    "aoti_torch_mps_get_kernel_function",
    "aoti_torch_mps_run_command_block",
    "aoti_torch_mps_set_arg_",
    "aoti_torch_mps_start_encoding",
)
"""C shims by which generated Metal kernels are run."""


@dataclass(frozen=True)
class Found:
    """What a partitioner says of one case.

    Attributes:
        reason: why a part of the program stays outside of the delegate; empty if none does.
        kernels: C shims of the operators' kernels that the program calls, sorted.
        is_decomposed: whether one of our decompositions takes part.
        is_replaced: whether one of our graph passes does.
    """

    reason: str = ""
    kernels: tuple[str, ...] = ()
    is_decomposed: bool = False
    is_replaced: bool = False


class Survey:
    """Asks about cases one after the other; each is exported once for all devices."""

    def __init__(self, devices: Sequence[str] = DEVICES) -> None:
        self._plans = {name: _plan(name) for name in devices}

    def ask(self, case: Case) -> dict[str, Found]:
        """What the partitioner of each device says."""
        try:
            exported = torch.export.export(Programs([case]), case.inputs)
        except Exception as error:  # whatever it is, the case cannot be lowered
            return dict.fromkeys(self._plans, Found(f"torch.export: {_first_line(error)}"))
        return {device: _ask(exported, device, plan) for device, plan in self._plans.items()}


def _plan(name: str) -> Plan:
    device, target = _DEVICES[name]
    return Plan(device, encode(LoweringOptions(targets=(target,))))


def _ask(exported: ExportedProgram, device: str, plan: Plan) -> Found:
    try:
        program = plan.decompose_unknown_ops(exported)
        verdicts = tuple(_verdicts(program, plan))
        if any(verdict.refusal for verdict in verdicts):
            # As ExecuTorch does, which takes apart what the delegate does not take whole.
            others = torch.export.default_decompositions()
            for op in plan.ops_to_keep_whole(copy.deepcopy(program)):  # it renames some
                others.pop(op, None)
            verdicts = tuple(_verdicts(program.run_decompositions(others), plan))
    except (LoweringError, RuntimeError, AssertionError) as error:
        return Found(_first_line(error))
    gone = _ops(exported) - _ops(program)
    ours = get_manager().decompositions(device).keys()
    return Found(
        next((f"{v.refusal.op}: {v.refusal.reason}" for v in verdicts if v.refusal), ""),
        tuple(
            sorted(
                {k for verdict in verdicts for k in verdict.kernels if not k.startswith(_LAUNCHES)}
            )
        ),
        any(verdict.is_decomposed for verdict in verdicts) or bool(gone & ours),
        any(verdict.is_replaced for verdict in verdicts),
    )


def _ops(program: ExportedProgram) -> set[object]:
    return {node.target for node in program.graph.nodes if node.op == "call_function"}


def _verdicts(program: ExportedProgram, plan: Plan) -> Iterator[Verdict]:
    support = plan.support()
    for node in program.graph.nodes:
        if node.op == "call_function":
            yield support.verdict(node)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"
