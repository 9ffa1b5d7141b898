"""Read the attention ops of a program, whichever of PyTorch's they are, and replace them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from aoti_plugins.lowering.added_nodes import comes_from
from aoti_plugins.lowering.passes.edge_to_aten import aten_op
from aoti_plugins.lowering.passes.repeated_heads import without_repeats
from aoti_plugins.lowering.small_weights.sources import arguments_of

_aten = torch.ops.aten
FLOATS = (torch.float16, torch.bfloat16, torch.float32)


@dataclass(frozen=True)
class Attention:
    """The arguments of a node, whichever of PyTorch's attention ops it calls."""

    query: Node
    key: Node
    value: Node
    mask: Node | None
    dropout: float
    causal: bool
    scale: Any
    grouped: bool


def read_attention(node: Node) -> Attention | None:
    """The arguments of an attention node whose result alone is used; ``None`` for any other node.

    Dropout, other dtypes than float16, bfloat16 and float32, and shapes that do not fit together
    are left to PyTorch.
    """
    read = _READERS.get(aten_op(node.target)) if node.op == "call_function" else None
    if read is None or _results(node) is None:
        return None
    found = read(**arguments_of(node))
    return found if _fits_together(found) else None


def replace_attention(node: Node, make: Callable[[Node], Node]) -> None:
    """Put another node in the place of an attention node's result, and drop what is left.

    Args:
        node: one that ``read_attention`` reads.
        make: makes the new node in front of the one that stands for the result.
    """
    results = _results(node) or []
    for result in results:
        with result.graph.inserting_before(result):
            new = make(result)
        new.meta.update(result.meta)
        comes_from(new, node)
        result.replace_all_uses_with(new)
        result.graph.erase_node(result)
    if node not in results:
        for unused in list(node.users):
            unused.graph.erase_node(unused)
        node.graph.erase_node(node)


def with_shared_heads(found: Attention) -> Attention:
    """Key and value before their heads were repeated, where they were, and equally often."""
    key, value = without_repeats(found.key), without_repeats(found.value)
    if key is None or value is None or key.times != value.times:
        return found
    if tensor_of(key.node).shape[-3] * key.times != tensor_of(found.query).shape[-3]:
        return found
    return replace(found, key=key.node, value=value.node, grouped=True)


def tensor_of(node: Node) -> Any:
    """The fake value of a node."""
    return node.meta.get("val")


def _read(
    query: Node,
    key: Node,
    value: Node,
    attn_mask: Node | None = None,
    attn_bias: Node | None = None,
    dropout_p: float = 0.0,
    dropout_mask: Node | None = None,
    is_causal: bool = False,
    scale: Any = None,
    enable_gqa: bool = False,
    **others: Any,
) -> Attention:
    del others
    mask = attn_mask if attn_mask is not None else attn_bias
    dropout = 1.0 if dropout_mask is not None else dropout_p
    return Attention(query, key, value, mask, dropout, is_causal, scale, enable_gqa)


_READERS: dict[Any, Callable[..., Attention]] = dict.fromkeys(
    (
        _aten.scaled_dot_product_attention.default,
        _aten._scaled_dot_product_attention_math.default,
        _aten._scaled_dot_product_flash_attention_for_cpu.default,
        _aten._scaled_dot_product_flash_attention.default,
        _aten._scaled_dot_product_efficient_attention.default,
        _aten._scaled_dot_product_cudnn_attention.default,
    ),
    _read,
)


def _results(node: Node) -> list[Node] | None:
    """The nodes that stand for the result; ``None`` if something else is used, too."""
    if isinstance(node.meta.get("val"), torch.Tensor):
        return [node]
    used = [user for user in node.users if user.users]
    is_first = [user.target is operator.getitem and user.args[1] == 0 for user in used]
    return used if used and all(is_first) else None


def _fits_together(found: Attention) -> bool:
    q, k, v = (tensor_of(node) for node in (found.query, found.key, found.value))
    if not all(isinstance(tensor, torch.Tensor) for tensor in (q, k, v)):
        return False
    return (
        found.dropout == 0.0
        and (found.scale is None or (isinstance(found.scale, float | int) and found.scale > 0))
        and q.dtype in FLOATS
        and q.dtype == k.dtype == v.dtype
        and q.dim() == k.dim() == v.dim()
        and 2 <= q.dim() <= 4
        and _heads_fit(found, q, k, v)
        and _mask_fits(found, q)
    )


def _heads_fit(found: Attention, q: Any, k: Any, v: Any) -> bool:
    if q.dim() < 3:
        return True
    heads, k_heads, v_heads = (tensor.shape[-3] for tensor in (q, k, v))
    if not statically_known_true(k_heads == v_heads):
        return False
    if isinstance(heads, int) and isinstance(k_heads, int) and k_heads > 0:
        return heads % k_heads == 0 if found.grouped else k_heads in (1, heads)
    return statically_known_true(heads == k_heads)


def _mask_fits(found: Attention, q: Any) -> bool:
    if found.mask is None:
        return True
    mask = tensor_of(found.mask)
    return (
        isinstance(mask, torch.Tensor)
        and mask.dtype in (torch.bool, *FLOATS)
        and mask.dim() <= max(q.dim(), 2)
        and not found.causal
    )
