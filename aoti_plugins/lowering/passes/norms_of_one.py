"""Norms over one element, in 16 bits: nothing is left of it, however it was rounded on the way.

Inductor may take the mean of what it has computed, and subtract it from what it has stored in 16
bits; over the root of epsilon, the difference would be all there is.
"""

from __future__ import annotations

import math
import operator

import torch
from torch.export import ExportedProgram
from torch.fx import Node

_aten = torch.ops.aten
_LAYERS = (_aten.layer_norm.default, _aten.native_layer_norm.default)
_GROUPS = (_aten.group_norm.default, _aten.native_group_norm.default)
_HALF = (torch.float16, torch.bfloat16)


def norms_of_one(program: ExportedProgram) -> None:
    """Give such norms zeros, in place, in the outermost graph; expects ATen ops."""
    for node in program.graph.nodes:
        if node.target in _LAYERS + _GROUPS and _is_of_one(node) and _gives_result_alone(node):
            x = node.args[0]
            with program.graph.inserting_before(node):
                nothing = program.graph.call_function(_aten.sub.Tensor, (x, x))  # NaN stays
            nothing.meta = {**node.meta, "val": x.meta["val"]}
            node.update_arg(0, nothing)


def _is_of_one(node: Node) -> bool:
    x = node.args[0].meta["val"]
    if x.dtype not in _HALF:
        return False
    if node.target in _LAYERS:
        sizes = node.args[1]
    else:
        groups = node.args[1 if node.target is _aten.group_norm.default else 6]
        sizes = (x.size(1) // groups, *x.shape[2:])
    return all(isinstance(size, int) for size in sizes) and math.prod(sizes) == 1


def _gives_result_alone(node: Node) -> bool:
    if not isinstance(node.meta["val"], list | tuple):
        return True
    return all(user.target is operator.getitem and user.args[1] == 0 for user in node.users)
