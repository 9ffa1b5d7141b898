"""Ops that change no element of their input: copies, and other shapes of the same."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from aoti_plugins.lowering.passes.edge_to_aten import aten_op

_aten = torch.ops.aten
_COPIES = ("clone", "_clone_dim_order", "contiguous", "alias", "alias_copy")
_RESHAPES = (
    _aten.reshape.default,
    _aten.view.default,
    _aten.view_copy.default,
    _aten._unsafe_view.default,
)


def is_copy(node: Any) -> bool:
    """Whether a node gives its input again, in whichever order in memory."""
    if not isinstance(node, Node) or node.op != "call_function":
        return False
    schema = getattr(aten_op(node.target), "_schema", None)
    return schema is not None and schema.name.rpartition("::")[2] in _COPIES


def is_reshape(node: Any) -> bool:
    """Whether a node gives its input, row by row, other sizes."""
    return (
        isinstance(node, Node) and node.op == "call_function" and aten_op(node.target) in _RESHAPES
    )
