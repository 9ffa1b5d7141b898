"""What a lowering would do, found out without compiling anything."""

from __future__ import annotations

import operator
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch.fx import GraphModule, Node

from aoti_plugins.hooks import hookimpl
from aoti_plugins.lowering.support import Refusal, Support, op_name

if TYPE_CHECKING:
    from executorch.exir.backend.backend_details import PreprocessResult
    from torch.export import ExportedProgram


@dataclass(frozen=True)
class DelegateForecast:
    """What one delegate would hold.

    Attributes:
        method: the method it is part of.
        ops: how often it has each op, by qualified name.
        kernels: C shims of kernels for ops that its code would call.
        weights: bytes of parameters, buffers and constants by name.
        inputs: how many tensors and numbers it is called with.
        outputs: how many it gives back.
    """

    method: str
    ops: Mapping[str, int]
    kernels: tuple[str, ...]
    weights: Mapping[str, int]
    inputs: int
    outputs: int


@dataclass(frozen=True)
class Forecast:
    """What a lowering would do.

    Attributes:
        device: what for.
        delegates: in the order of the program.
        outside: why what ExecuTorch is to run is in no delegate, by method.
    """

    device: str
    delegates: tuple[DelegateForecast, ...]
    outside: Mapping[str, tuple[Refusal, ...]]

    @property
    def missing(self) -> tuple[Refusal, ...]:
        """What nobody has a kernel for, so that the lowering would end with an error."""
        return tuple(one for found in self.outside.values() for one in found if one.kernel)

    @property
    def is_whole(self) -> bool:
        """Whether each method is one delegate."""
        methods = Counter(one.method for one in self.delegates)
        return not any(self.outside.values()) and set(methods.values()) == {1}

    @property
    def weights_nbytes(self) -> int:
        """Bytes of all weights; what delegates have under one name counts once."""
        return sum({name: n for one in self.delegates for name, n in one.weights.items()}.values())


class Recorder:
    """A plugin that notes what each delegate would hold, and compiles nothing.

    It answers for the thread that made it: others go on lowering.

    Args:
        support: makes what decides about the nodes of one program.
    """

    def __init__(self, support: Callable[[], Support]) -> None:
        self.delegates: list[DelegateForecast] = []
        self._support = support
        self._thread = threading.get_ident()

    @hookimpl(tryfirst=True)
    def aoti_preprocess(
        self, edge_program: ExportedProgram, method: str
    ) -> PreprocessResult | None:
        """An empty payload, in place of what a delegate would be."""
        from executorch.exir.backend.backend_details import PreprocessResult

        if threading.get_ident() != self._thread:
            return None
        self.delegates.append(self._delegate(edge_program, method))
        return PreprocessResult(processed_bytes=b"")

    def _delegate(self, program: ExportedProgram, method: str) -> DelegateForecast:
        support, nodes = self._support(), list(_calls(program))
        signature = program.graph_signature
        return DelegateForecast(
            method,
            dict(Counter(op_name(node) for node in nodes)),
            tuple(sorted({shim for node in nodes for shim in support.verdict(node).kernels})),
            {name: value.nbytes for name, value in _weights(program).items()},
            len(signature.user_inputs),
            len(signature.user_outputs),
        )


def _calls(program: ExportedProgram) -> Iterator[Node]:
    modules = (m for m in program.graph_module.modules() if isinstance(m, GraphModule))
    nodes = (node for module in modules for node in module.graph.nodes)
    calls = (node for node in nodes if node.op == "call_function")
    return (node for node in calls if node.target is not operator.getitem)


def _weights(program: ExportedProgram) -> dict[str, Any]:
    return {**program.state_dict, **program.tensor_constants}
