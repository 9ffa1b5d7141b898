"""Scaled dot-product attention becomes the op that the MPS runtime has kernels for.

On a Mac PyTorch chooses between its attention ops by the device's own rules; without one, asking
for them fails. Here the choice is made in the graph.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from aoti_plugins.lowering.passes.attention import (
    Attention,
    read_attention,
    replace_attention,
    tensor_of,
    with_shared_heads,
)
from aoti_plugins.mps.inductor.attention_sizes import attention_results

_attention = torch.ops.aten._scaled_dot_product_attention_math_for_mps.default
# Of the same arguments and results; it is decomposed.
_with_weights = torch.ops.aten._scaled_dot_product_attention_math.default


def attention_to_metal(program: ExportedProgram) -> None:
    """Replace attention in place, in nested graphs too.

    Key and value heads that were repeated for grouped queries are used as they were before, where
    this PyTorch's op takes such. What ``is_replaced`` says no to stays as it is, but for that op in
    a program whose second result is used: the kernels have no weights of keys.
    """
    for module in program.graph_module.modules():
        if isinstance(module, GraphModule):
            for node in list(module.graph.nodes):
                _replace(node)


def is_replaced(node: Node) -> bool:
    """Whether the pass replaces a node."""
    return _supported(node) is not None


def _replace(node: Node) -> None:
    if node.target is _attention and _weights_are_used(node):
        node.target = _with_weights
        return
    found = _supported(node)
    if found is not None:
        replace_attention(node, lambda result: _call(found, result))


def _weights_are_used(node: Node) -> bool:
    return any(user.args[1] == 1 and user.users for user in node.users)


def _supported(node: Node) -> Attention | None:
    found = read_attention(node)
    if found is None or tensor_of(found.query).dim() < 3:
        return None
    if takes_groups():
        return with_shared_heads(found)
    return found if not found.grouped else None


def takes_groups() -> bool:
    """Whether this PyTorch's op takes fewer heads of keys and values than of queries."""
    return any(argument.name == "enable_gqa" for argument in _attention._schema.arguments)


def _call(found: Attention, result: Node) -> Node:
    graph = result.graph
    options: dict[str, Any] = {} if found.scale is None else {"scale": float(found.scale)}
    if found.grouped:
        options["enable_gqa"] = True
    inputs = (found.query, found.key, found.value, found.mask, 0.0, found.causal)
    both = graph.call_function(_attention, inputs, options)
    query, key, value = map(tensor_of, inputs[:3])
    with query.fake_mode:
        both.meta["val"] = attention_results(query, key, value)
    return graph.call_function(operator.getitem, (both, 0))
