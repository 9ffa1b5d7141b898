"""Assertions of a partition stand before what they bound, however its nodes were sorted."""

from __future__ import annotations

import torch
from torch import nn
from torch.fx import GraphModule

from aoti_plugins.lowering.assertions import is_decision, put_first


class Beginning(nn.Module):
    """Takes as many rows as a tensor says."""

    def forward(self, x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
        """Bound the number on both sides."""
        n = count.item()
        torch._check(n >= 1)
        torch._check(n <= 8)
        return x[:n] * 2


def _with_assertions_last() -> GraphModule:
    program = torch.export.export(Beginning(), (torch.randn(8, 2), torch.tensor(4)))
    module = program.run_decompositions({}).graph_module
    for node in [node for node in module.graph.nodes if is_decision(node)]:
        module.graph.output_node().prepend(node)
    module.recompile()
    return module


def _calls(module: GraphModule) -> list[str]:
    calls = [node for node in module.graph.nodes if node.op == "call_function"]
    return [getattr(node.target, "__name__", "") for node in calls]


def test_they_follow_what_they_are_about_in_their_order() -> None:
    module = _with_assertions_last()
    number, *others = _calls(module)
    decisions = ["ge", "_assert_scalar.default", "le", "_assert_scalar.default"]
    assert others == ["slice.Tensor", "mul.Tensor", *decisions]
    put_first(module)
    module.graph.lint()
    assert _calls(module) == [number, *decisions, "slice.Tensor", "mul.Tensor"]
