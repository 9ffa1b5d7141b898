"""The error function of small numbers, to their own precision.

PyTorch's vectors give it to 1.5e-7 of 1 (Abramowitz and Stegun, 7.1.26): nothing is left of 1e-30.
GELU, and what else adds 1 to it, loses nothing by that and stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from aoti_plugins.lowering.added_nodes import call
from aoti_plugins.lowering.program_constants import constant_of
from aoti_plugins.lowering.small_weights.sources import CASTS, name_of

_aten = torch.ops.aten
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)

# Below it the power series has the precision of float32; from it on PyTorch's vectors are off by at
# most 3e-7 of what they give.
_SMALL = 0.5
_TERMS = [2 / math.sqrt(math.pi) * (-1) ** k / (math.factorial(k) * (2 * k + 1)) for k in range(8)]


def small_erf(program: ExportedProgram) -> None:
    """Rewrite ``aten.erf``, in place, in the outermost graph; expects ATen ops."""
    graph = program.graph
    for node in graph.find_nodes(op="call_function", target=_aten.erf.default):
        x = node.args[0].meta["val"]
        if x.dtype not in _FLOATS or all(_adds_one(program, node, user) for user in node.users):
            continue
        node.replace_all_uses_with(_erf(partial(call, node), node.args[0], x.dtype))
        graph.erase_node(node)


def _adds_one(program: ExportedProgram, node: Node, user: Node) -> bool:
    if name_of(user) != "aten::add" or user.kwargs.get("alpha", 1) != 1:
        return False
    return any(_is_one(program, one) for one in user.args[:2] if one is not node)


def _is_one(program: ExportedProgram, value: Any) -> bool:
    """Whether a number, or a tensor that a number was made, is 1."""
    while name_of(value) in CASTS:
        value = value.args[0]
    if name_of(value) == "aten::full":
        value = value.args[1]
    if not isinstance(value, Node):
        return bool(value == 1)
    constant = constant_of(program, value)
    return constant is not None and constant.numel() == 1 and constant.item() == 1


def _erf(add: Callable[..., Node], x: Node, dtype: torch.dtype) -> Node:
    wide = add(_aten._to_copy.default, x, dtype=torch.float32)
    square = add(_aten.mul.Tensor, wide, wide)
    series = add(_aten.full_like.default, wide, _TERMS[-1])
    for term in reversed(_TERMS[:-1]):
        series = add(_aten.add.Tensor, add(_aten.mul.Tensor, series, square), term)
    is_small = add(_aten.lt.Scalar, add(_aten.abs.default, wide), _SMALL)
    found = add(_aten.mul.Tensor, wide, series)
    found = add(_aten.where.self, is_small, found, add(_aten.erf.default, wide))
    return add(_aten._to_copy.default, found, dtype=dtype)
