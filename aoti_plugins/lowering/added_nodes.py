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
