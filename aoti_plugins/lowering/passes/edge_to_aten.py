"""Turn the edge dialect's ops back into ATen's, which Inductor knows."""

from __future__ import annotations

from typing import Any

from executorch.exir.dialects.edge._ops import EdgeOpOverload
from torch.export import ExportedProgram
from torch.fx import GraphModule

from aoti_plugins.lowering.carried_ops import original


def aten_op(target: Any) -> Any:
    """The op that an edge op wraps or that is carried for it; anything else as it is."""
    return original(target._op if isinstance(target, EdgeOpOverload) else target)


def edge_to_aten(program: ExportedProgram) -> None:
    """Replace every edge op by the op that it wraps, in place, in nested graphs too."""
    for module in program.graph_module.modules():
        if isinstance(module, GraphModule):
            for node in module.graph.nodes:
                node.target = aten_op(node.target)
