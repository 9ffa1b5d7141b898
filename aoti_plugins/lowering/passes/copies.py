"""Ops that give the same elements in memory of their own."""

from __future__ import annotations

from typing import Any

from torch.fx import Node

from aoti_plugins.lowering.passes.edge_to_aten import aten_op

_COPIES = ("clone", "_clone_dim_order", "contiguous", "alias", "alias_copy")


def is_copy(node: Any) -> bool:
    """Whether a node calls an op that changes no element, nor their dtype or order."""
    if not isinstance(node, Node) or node.op != "call_function":
        return False
    schema = getattr(aten_op(node.target), "_schema", None)
    return schema is not None and schema.name.rpartition("::")[2] in _COPIES
