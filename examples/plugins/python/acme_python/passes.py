"""A graph pass: GELU by its tanh form, which is faster and differs by less than 0.001."""

from __future__ import annotations

import torch


def tanh_gelu(program: torch.export.ExportedProgram) -> None:
    """Change a partition in place; the nodes are ATen's."""
    for node in program.graph.nodes:
        if node.target == torch.ops.aten.gelu.default:
            node.kwargs = {**node.kwargs, "approximate": "tanh"}
    program.graph_module.recompile()
