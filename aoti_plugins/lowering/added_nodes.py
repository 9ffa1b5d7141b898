"""Nodes that passes put into a graph."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node
from torch.fx.traceback import NodeSource


def call(before: Node, op: Any, *args: Any, **kwargs: Any) -> Node:
    """A new node in front of another one, for which it is; it knows what its value is like."""
    fakes, named = torch.fx.map_arg((args, kwargs), lambda one: one.meta["val"])
    with before.graph.inserting_before(before):
        node = before.graph.call_function(op, args, kwargs)
    with before.meta["val"].fake_mode:
        node.meta["val"] = op(*fakes, **named)
    comes_from(node, before)
    return node


def comes_from(node: Node, *of: Node) -> None:
    """Note which ops of the program a node is of: messages, profiles and debug handles say so."""
    node.meta["from_node"] = [NodeSource(one, "aoti_plugins") for one in of]


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
    comes_from(node, of)
    of.replace_all_uses_with(node)
    of.graph.erase_node(of)
