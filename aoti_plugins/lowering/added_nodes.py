"""Nodes that passes put into a graph."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node


def call(before: Node, op: Any, *args: Any, **kwargs: Any) -> Node:
    """A new node in front of another one, which knows what its value is like."""
    fakes, named = torch.fx.map_arg((args, kwargs), lambda one: one.meta["val"])
    with before.graph.inserting_before(before):
        node = before.graph.call_function(op, args, kwargs)
    with before.meta["val"].fake_mode:
        node.meta["val"] = op(*fakes, **named)
    return node


def call_instead(of: Node, op: Any, *args: Any, **kwargs: Any) -> Node:
    """A new node in the place of another one, which goes; what was known of it is of the new one.

    Args:
        of: the node that goes.
        op: what the new one calls.
        args: of the call.
        kwargs: likewise.
    """
    with of.graph.inserting_before(of):
        node = of.graph.call_function(op, args, kwargs)
    put_in_place(node, of)
    return node


def put_in_place(node: Node, of: Node) -> None:
    """Let a node stand for another one, which goes; what was known of that is of the new one."""
    node.meta.update(of.meta)
    of.replace_all_uses_with(node)
    of.graph.erase_node(of)
