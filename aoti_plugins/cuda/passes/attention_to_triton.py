"""Scaled dot-product attention becomes the op whose kernels are compiled into the blob."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from aoti_plugins.cuda.attention.config import MAX_HEAD_DIM, takes_few_queries
from aoti_plugins.cuda.attention.launch import Call
from aoti_plugins.lowering.passes.attention import (
    Attention,
    read_attention,
    replace_attention,
    tensor_of,
    with_shared_heads,
)
from aoti_plugins.lowering.passes.edge_to_aten import aten_op
from aoti_plugins.lowering.passes.restore_views import writes
from aoti_plugins.lowering.passes.same_elements import is_copy, is_reshape
from aoti_plugins.lowering.values import hint

_aten = torch.ops.aten


def attention_to_triton(program: ExportedProgram) -> None:
    """Replace attention by ``aoti_plugins::attention`` in place, in nested graphs too.

    Key and value heads that were repeated for grouped queries are used as they were before, and
    what was copied only to lie head by head is read where it was, except in graphs with ops that
    write to tensors. What the kernels cannot do stays as it is: dropout, other dtypes than float16,
    bfloat16 and float32, heads of more than 256 elements or of dynamic size, and outputs beside the
    result. Attentions with the same mask look it over once.
    """
    for module in program.graph_module.modules():
        if isinstance(module, GraphModule):
            copies_matter = any(writes(node) for node in module.graph.nodes)
            tiles: dict[Node, Node] = {}
            for node in list(module.graph.nodes):
                _replace(node, copies_matter, tiles)


def _replace(node: Node, copies_matter: bool, tiles: dict[Node, Node]) -> None:
    found = _supported(node)
    if found is None:
        return
    if not copies_matter:
        found = with_shared_heads(found)
        found = replace(
            found,
            query=_before_copies(found.query),
            key=_before_copies(found.key),
            value=_before_copies(found.value),
        )
    found = replace(found, mask=_before_expansion(found.mask))
    head_dim = tensor_of(found.query).shape[-1]
    scale = head_dim**-0.5 if found.scale is None else float(found.scale)
    tensors = (found.query, found.key, found.value, found.mask)
    query, key, value, mask = (None if one is None else tensor_of(one) for one in tensors)
    is_for_few = takes_few_queries(Call(query, key, value, mask, found.causal, scale).problem())
    of_mask = None
    # Where something is written the mask may be another one for the next attention.
    if found.mask is not None and not (copies_matter or is_for_few):
        with node.graph.inserting_before(node):
            of_mask = _tiles(found.mask, tiles)
    inputs = (*tensors, of_mask, found.causal, scale)
    op = _ops().attention.default
    replace_attention(node, lambda result: node.graph.call_function(op, (*inputs, _order(result))))


def _before_expansion(mask: Node | None) -> Node | None:
    """What a mask of queries and keys repeats: the kernels take one that broadcasts."""
    while (
        mask is not None
        and mask.target is _aten.expand.default
        and tensor_of(mask.args[0]).dim() > 1
    ):
        mask = mask.args[0]
    return mask


def _tiles(mask: Node, known: dict[Node, Node]) -> Node:
    """What the kernels for many queries want to know of a mask, once for each; noted in ``known``.

    The first attention with a mask comes before all others with it.
    """
    if mask not in known:
        op = _ops().mask_tiles.default
        known[mask] = mask.graph.call_function(op, (mask,))
        known[mask].meta["val"] = op(tensor_of(mask))
    return known[mask]


def is_replaced(node: Node) -> bool:
    """Whether the pass replaces a node."""
    return _supported(node) is not None


def _supported(node: Node) -> Attention | None:
    found = read_attention(node)
    if found is None:
        return None
    nodes = (found.query, found.key, found.value)
    return found if all(_is_small(tensor_of(one).shape[-1]) for one in nodes) else None


def _before_copies(node: Node) -> Node:
    """What a node copies: the kernels take any strides, if the elements of a head are in a row."""
    source = node
    while is_copy(source):
        source = source.args[0]
    return source if _permutation(source) and _has_rows(source) else node


def _has_rows(view: Node) -> bool:
    """Whether elements of the last dimension are in a row, as far as its views can be followed."""
    while True:
        order = _permutation(view)
        if order and order[-1] != len(order) - 1:
            return False
        if not (order or is_copy(view) or is_reshape(view)):
            return True
        view = view.args[0]


def _ops() -> Any:
    """The ops; their module needs triton when they are registered, so not before they are used."""
    from aoti_plugins.cuda.attention import op

    del op
    return torch.ops.aoti_plugins


def _is_small(head_dim: Any) -> bool:
    return isinstance(head_dim, int) and 0 < head_dim <= MAX_HEAD_DIM


def _order(result: Node) -> list[int]:
    """Dimensions of the result from the largest stride to the smallest.

    As the program expects them; except where everybody swaps heads and rows first and expects that
    to be contiguous, as the edge dialect has it, whose every op makes a copy.
    """
    if all(_swaps_heads_and_rows(user) and _is_in_order(user) for user in result.users):
        return [0, 2, 1, 3]
    return _order_in_memory(tensor_of(result))


def _order_in_memory(value: torch.Tensor) -> list[int]:
    return sorted(range(value.dim()), key=lambda dim: -hint(value.stride(dim)))


def _is_in_order(node: Node) -> bool:
    return _order_in_memory(tensor_of(node)) == [0, 1, 2, 3]


def _swaps_heads_and_rows(node: Node) -> bool:
    """Whether a node swaps the middle two of four dimensions."""
    return _permutation(node) == [0, 2, 1, 3]


def _permutation(node: Node) -> list[int]:
    """Which dimension each one of a permuted or transposed tensor was; of other nodes nothing."""
    op = aten_op(node.target)
    if op in (_aten.transpose.int, _aten.transpose_copy.int):
        order = list(range(tensor_of(node).dim()))
        one, other = node.args[1:3]
        order[one], order[other] = order[other], order[one]
        return order
    if op in (_aten.permute.default, _aten.permute_copy.default):
        return [dim % len(node.args[1]) for dim in node.args[1]]
    return []
