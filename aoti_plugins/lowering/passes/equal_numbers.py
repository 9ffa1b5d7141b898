"""Whole numbers that a model computes several times become one: positions, masks, indices.

Layers of a language model each compute where the token is. Inductor merges nothing, and where a
kernel of ours or a copy needs such a number in memory, it is one small kernel for each layer.
Floating-point values stay as they are: Inductor computes them again in each of their users, and
would keep large ones in memory instead.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node
from torch.utils import _pytree as pytree

_TAGS = (
    torch.Tag.nondeterministic_seeded,
    torch.Tag.data_dependent_output,
    torch.Tag.dynamic_output_shape,
)


def equal_numbers(program: ExportedProgram) -> None:
    """Merge equal tensors of whole numbers or truth values, in place; expects ATen ops.

    In the outermost graph. What the program returns stays, and so do what an op may write to and
    what reads such a tensor: it may be another one the next time.
    """
    first: dict[Hashable, Node] = {}
    for node in list(program.graph.nodes):
        if not _is_number(node):
            continue
        key = _key(node)
        same = first.setdefault(key, node)
        if same is not node:
            node.replace_all_uses_with(same)
            program.graph.erase_node(node)


def _is_number(node: Node) -> bool:
    op, value = node.target, node.meta.get("val")
    if not isinstance(op, torch._ops.OpOverload) or not isinstance(value, torch.Tensor):
        return False
    if value.dtype.is_floating_point or value.dtype.is_complex:
        return False
    if op._schema.is_mutable or any(tag in op.tags for tag in _TAGS):
        return False
    readers = {user for one in node.all_input_nodes for user in one.users}
    if any(_writes(one) for one in readers):
        return False
    return not any(one.op == "output" or _writes(one) or _has_graphs(one) for one in node.users)


def _writes(node: Node) -> bool:
    """Whether an op writes to an argument."""
    op = node.target
    return isinstance(op, torch._ops.OpOverload) and bool(op._schema.is_mutable)


def _has_graphs(node: Node) -> bool:
    """Whether an op runs graphs or kernels of a user's, which may write to what they are given."""
    return isinstance(node.target, torch._ops.HigherOrderOperator)


def _key(node: Node) -> Hashable:
    """Equal for nodes that compute the same; ``1``, ``1.0`` and ``True`` are not the same."""
    leaves, spec = pytree.tree_flatten((node.args, node.kwargs))
    return node.target, str(spec), tuple(map(_leaf_key, leaves))


def _leaf_key(leaf: Any) -> Hashable:
    return leaf if isinstance(leaf, Node) else (type(leaf), repr(leaf))
