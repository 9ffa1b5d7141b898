"""What equal layers hand on, and what they share, is in memory before anything uses it.

Inductor computes a sum anew in each kernel that reads it, until it has read enough for it: of the
sums that layers add to, every second or fourth would be stored, and no layer would be like the one
behind it. A mask that all layers use might be stored once for each.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Node

from aoti_plugins.lowering.decompositions.stored import store_result
from aoti_plugins.lowering.layers.short_program import (
    equal_layers,
    is_generated,
    is_in_memory,
)
from aoti_plugins.lowering.passes.restore_views import returns_alias


def store_between_layers(program: ExportedProgram, is_decomposed: Callable[[Node], bool]) -> None:
    """Store what layers hand on or share, in place; nothing where few layers are equal.

    Args:
        program: a partition after all passes.
        is_decomposed: whether a node's op is taken apart before Inductor sees it.
    """
    layers = equal_layers(program)
    if layers is None:
        return
    inside = {node: chain for chain in layers.nodes for node in chain}
    between = {one for node in inside for one in node.all_input_nodes if one not in inside}
    between |= {node for one in layers.handed_on for node in inside[one]}
    for node in list(program.graph.nodes):
        if node in between and _may_be_stored(node, is_decomposed):
            # Not where it comes from: it is no op of the user's.
            store_result(node, {"val": node.meta["val"]})


def _may_be_stored(node: Node, is_decomposed: Callable[[Node], bool]) -> bool:
    """Whether it is a tensor that may not be in memory; results of the program are there anyway."""
    value = node.meta.get("val")
    is_tensor = node.op == "call_function" and isinstance(value, Tensor)
    if not is_tensor or any(user.op == "output" for user in node.users):
        return False
    if is_in_memory(node, is_decomposed):
        return False
    return value.dtype != torch.bool or _is_read_from_memory(node, is_decomposed)


def _is_read_from_memory(mask: Node, is_decomposed: Callable[[Node], bool]) -> bool:
    """Whether an op that Inductor knows nothing of takes it, or a view of it.

    In a loop over vectors a mask is computed in less time than bytes of it become flags: a prompt
    of 512 tokens took a third more time on a CPU with its mask in memory.
    """
    return any(
        _is_read_from_memory(user, is_decomposed)
        if returns_alias(user)
        else not is_generated(user, is_decomposed)
        for user in mask.users
    )
