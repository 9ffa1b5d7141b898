"""Tensors of 16 bits are compared as they are stored, and their extremes are among them.

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


# What gives elements of its operand.
_EXTREMES = (
    *(_aten.amax.default, _aten.amin.default, _aten.aminmax.default),
    *(_aten.max.default, _aten.min.default, _aten.max.dim, _aten.min.dim),
    *(_aten.topk.default, _aten.sort.default, _aten.sort.stable, _aten.kthvalue.default),
)


def compared_values(program: ExportedProgram) -> None:
    """Put what is compared in memory first, in the outermost graph, in place; expects ATen ops.

    Computed tensors of 16 bits: both operands of a comparison, and what extremes are taken of,
    where it has other readers, too.
    """
    graph = program.graph
    found: dict[Node, None] = {}
    for node in graph.nodes:
        if node.target in _COMPARISONS and all(map(_is_half, node.args)):
            found |= dict.fromkeys(node.args)
        elif node.target in _EXTREMES and _is_half(node.args[0]) and len(node.args[0].users) > 1:
            found[node.args[0]] = None
    for operand in found:
        if operand.op != "call_function":
            continue
        with graph.inserting_after(operand):
            stored = graph.call_function(torch.ops.aoti_plugins.stored.default, (operand,))
        stored.meta = dict(operand.meta)
        readers = [user for user in operand.users if user is not stored and user.op != "output"]
        for user in readers:
            user.replace_input_with(operand, stored)


def _is_half(value: object) -> bool:
    found = value.meta.get("val") if isinstance(value, Node) else None
    return isinstance(found, torch.Tensor) and found.dtype in _HALF
