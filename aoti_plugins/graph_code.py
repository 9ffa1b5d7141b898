"""The Python code of graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def recompile(program: ExportedProgram) -> None:
    """Make the code of a program's graphs, nested ones too, that of the graphs as they are now.

    It takes time with every node, so passes of ours leave it to who needs the code.
    """
    from torch.fx import GraphModule

    for module in program.graph_module.modules():
        if isinstance(module, GraphModule):
            module.recompile()
