"""What equal layers hand on, and what they share, is in memory before anything uses it.

Inductor computes a sum anew in each kernel that reads it, until it has read enough for it: of the
sums that layers add to, every second or fourth would be stored, and no layer would be like the one
behind it. A mask that all layers use might be stored once for each.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Graph, Node

from aoti_plugins.lowering.layers.short_program import equal_layers, is_in_memory


def store_between_layers(program: ExportedProgram) -> None:
    """Store what layers hand on or share, in place; nothing where few layers are equal."""
    layers = equal_layers(program)
    if layers is None:
        return
    inside = {node: chain for chain in layers.nodes for node in chain}
    shared = {one for node in inside for one in node.all_input_nodes if one not in inside}
    handed_on = {node for one in layers.handed_on for node in inside[one]}
    for node in list(program.graph.nodes):
        if node in shared | handed_on and _may_be_stored(node):
            _store(program.graph, node)


def _may_be_stored(node: Node) -> bool:
    """Whether it is a tensor that may not be in memory; results of the program are there anyway."""
    is_tensor = isinstance(node.meta.get("val"), Tensor)
    is_result = any(user.op == "output" for user in node.users)
    return node.op == "call_function" and is_tensor and not is_result and not is_in_memory(node)


def _store(graph: Graph, node: Node) -> None:
    with graph.inserting_after(node):
        stored = graph.call_function(torch.ops.aoti_plugins.stored.default, (node,))
    # Not where it comes from: it is no op of the user's.
    stored.meta = {"val": node.meta["val"]}
    node.replace_all_uses_with(stored, delete_user_cb=lambda user: user is not stored)
