"""What each op of an exported model computes: the same model with the values of all ops as results.

So a program's arithmetic can be compared with eager PyTorch's op by op.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.fx import GraphModule, Interpreter, Node

from aoti_plugins.lowering.support import module_path, op_name, source_line


@dataclass(frozen=True)
class Step:
    """One op of a model.

    Attributes:
        node: the node's name.
        op: the op's qualified name.
        module: path of the module in the user's model; may be empty.
        source: the user's source line; may be empty.
    """

    node: str
    op: str
    module: str
    source: str


class StepwiseModule(nn.Module):
    """A model whose results are the values of its ops, in order.

    Each is a copy, since later ops may write to what an op gave.

    Args:
        exported: the model.
    """

    def __init__(self, exported: ExportedProgram) -> None:
        super().__init__()
        self.module = exported.module(check_guards=False)
        self.steps: list[Step] = []
        """The ops that gave the results of the last call."""

    def forward(self, *inputs: Any) -> list[Tensor]:
        """Run the model on its inputs, flat; the value of each op that computes a tensor."""
        recorder = _Recorder(self.module)
        recorder.run(*inputs, enable_io_processing=False)
        self.steps = recorder.steps
        return recorder.values


class _Recorder(Interpreter):
    """Runs a graph and keeps what its ops compute; views have the values of others."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.steps: list[Step] = []
        self.values: list[Tensor] = []

    def run_node(self, n: Node) -> Any:
        value = super().run_node(n)
        is_real = isinstance(value, Tensor) and not value.dtype.is_complex
        if n.op == "call_function" and is_real and not getattr(n.target, "is_view", False):
            self.steps.append(_step(n))
            self.values.append(value.detach().clone(memory_format=torch.contiguous_format))
        return value


def _step(node: Node) -> Step:
    """One of several results is a step of the op that gave it."""
    source, suffix = node, ""
    if node.target is operator.getitem and isinstance(node.args[0], Node):
        source, suffix = node.args[0], f"[{node.args[1]}]"
    return Step(node.name, op_name(source) + suffix, module_path(source), source_line(source))
