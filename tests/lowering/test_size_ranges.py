"""The sizes that a partition takes while it is lowered."""

from __future__ import annotations

import torch
from torch.export import Dim, ExportedProgram, export

from aoti_plugins.lowering import size_ranges


class Double(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + x


def size_of(program: ExportedProgram) -> torch.SymInt:
    (node,) = (node for node in program.graph.nodes if node.op == "placeholder")
    size = node.meta["val"].size(0)
    assert isinstance(size, torch.SymInt)
    return size


def test_what_holds_for_the_example_narrows_no_range() -> None:
    program = export(Double(), (torch.ones(3, 4),), dynamic_shapes=({0: Dim("n", max=8)},))
    size = size_of(program)
    shape_env, symbol = size.node.shape_env, size.node.expr
    with size_ranges.as_exported(program):
        assert bool(size != 1)
        assert bool(size > 2)
        assert shape_env.var_to_range[symbol].lower == 0
    assert shape_env.var_to_range[symbol].lower == 2
    assert "_refine_ranges" not in vars(shape_env)
