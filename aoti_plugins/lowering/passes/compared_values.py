"""Tensors of 16 bits are compared as they are stored.

Inductor computes in float32, and may compare what it has computed with what it has stored and read
again, rounded to 16 bits: the largest element of ``x`` was then not ``x.amax()``.
"""

from __future__ import annotations

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from aoti_plugins.lowering.decompositions import stored  # noqa: F401  (defines the operator)

_aten = torch.ops.aten
_COMPARISONS = (
    *(_aten.eq.Tensor, _aten.ne.Tensor, _aten.lt.Tensor),
    *(_aten.le.Tensor, _aten.gt.Tensor, _aten.ge.Tensor),
)
_HALF = (torch.float16, torch.bfloat16)


def compared_values(program: ExportedProgram) -> None:
    """Put computed operands of comparisons in memory first, in the outermost graph, in place.

    Where both are tensors of 16 bits; expects ATen ops.
    """
    graph = program.graph
    made: dict[Node, Node] = {}
    for node in list(graph.nodes):
        if node.target not in _COMPARISONS or not all(map(_is_half, node.args)):
            continue
        for place, operand in enumerate(node.args):
            if operand.op != "call_function":
                continue
            if operand not in made:
                with graph.inserting_after(operand):
                    made[operand] = graph.call_function(
                        torch.ops.aoti_plugins.stored.default, (operand,)
                    )
                made[operand].meta = dict(operand.meta)
            node.update_arg(place, made[operand])
    program.graph_module.recompile()


def _is_half(value: object) -> bool:
    return isinstance(value, Node) and value.meta["val"].dtype in _HALF
