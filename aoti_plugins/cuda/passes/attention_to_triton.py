"""Scaled dot-product attention becomes the op whose kernels are compiled into the blob."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from aoti_plugins.cuda.attention.config import MAX_HEAD_DIM
from aoti_plugins.cuda.passes.repeated_heads import without_repeats
from aoti_plugins.lowering.passes.edge_to_aten import aten_op
from aoti_plugins.lowering.values import hint

_aten = torch.ops.aten
_DTYPES = (torch.float16, torch.bfloat16, torch.float32)


@dataclass(frozen=True)
class _Attention:
    """The arguments of a node, whichever of PyTorch's attention ops it calls."""

    query: Node
    key: Node
    value: Node
    mask: Node | None
    dropout: float
    causal: bool
    scale: Any
    grouped: bool


def attention_to_triton(program: ExportedProgram) -> None:
    """Replace attention by ``aoti_plugins::attention`` in place, in nested graphs too.

    Key and value heads that were repeated for grouped queries are used as they were before. What
    the kernels cannot do stays as it is: dropout, other dtypes than float16, bfloat16 and float32,
    heads of more than 256 elements or of dynamic size, and outputs beside the result.
    """
    for module in program.graph_module.modules():
        if isinstance(module, GraphModule):
            for node in list(module.graph.nodes):
                _replace(node)
            module.recompile()


def _replace(node: Node) -> None:
    found = _supported(node)
    results = _results(node)
    if found is None or results is None:
        return
    found = _with_shared_heads(found)
    scale = _value(found.query).shape[-1] ** -0.5 if found.scale is None else float(found.scale)
    for result in results:
        with result.graph.inserting_before(result):
            new = result.graph.call_function(
                _op(),
                (
                    found.query,
                    found.key,
                    found.value,
                    found.mask,
                    found.causal,
                    scale,
                    _order(result),
                ),
            )
        new.meta.update(result.meta)
        result.replace_all_uses_with(new)
        result.graph.erase_node(result)
    if node not in results:
        for unused in list(node.users):
            unused.graph.erase_node(unused)
        node.graph.erase_node(node)


def is_replaced(node: Node) -> bool:
    """Whether the pass replaces a node."""
    return _supported(node) is not None and _results(node) is not None


def _supported(node: Node) -> _Attention | None:
    read = _READERS.get(aten_op(node.target)) if node.op == "call_function" else None
    found = None if read is None else read(**_arguments(node))
    return found if found is not None and _is_supported(found) else None


def _op() -> torch._ops.OpOverload:
    """The op; its module needs triton when it is registered, so not before it is used."""
    from aoti_plugins.cuda.attention import op

    del op
    return torch.ops.aoti_plugins.attention.default


def _arguments(node: Node) -> dict[str, Any]:
    """All arguments by name, defaults filled in."""
    schema = aten_op(node.target)._schema
    values = {argument.name: argument.default_value for argument in schema.arguments}
    names = [argument.name for argument in schema.arguments if not argument.kwarg_only]
    values.update(zip(names, node.args, strict=False))
    values.update(node.kwargs)
    return values


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
) -> _Attention:
    del others
    mask = attn_mask if attn_mask is not None else attn_bias
    dropout = 1.0 if dropout_mask is not None else dropout_p
    return _Attention(query, key, value, mask, dropout, is_causal, scale, enable_gqa)


_READERS: dict[Any, Callable[..., _Attention]] = dict.fromkeys(
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


def _is_supported(found: _Attention) -> bool:
    q, k, v = (_value(node) for node in (found.query, found.key, found.value))
    if not all(isinstance(tensor, torch.Tensor) for tensor in (q, k, v)):
        return False
    return (
        found.dropout == 0.0
        and (found.scale is None or (isinstance(found.scale, float | int) and found.scale > 0))
        and q.dtype in _DTYPES
        and q.dtype == k.dtype == v.dtype
        and q.dim() == k.dim() == v.dim()
        and 2 <= q.dim() <= 4
        and all(_is_small(size) for size in (q.shape[-1], k.shape[-1], v.shape[-1]))
        and _heads_fit(found, q, k, v)
        and _mask_fits(found, q)
    )


def _is_small(head_dim: Any) -> bool:
    return isinstance(head_dim, int) and 0 < head_dim <= MAX_HEAD_DIM


def _heads_fit(found: _Attention, q: Any, k: Any, v: Any) -> bool:
    if q.dim() < 3:
        return True
    heads, k_heads, v_heads = (tensor.shape[-3] for tensor in (q, k, v))
    if not statically_known_true(k_heads == v_heads):
        return False
    if isinstance(heads, int) and isinstance(k_heads, int) and k_heads > 0:
        return heads % k_heads == 0 if found.grouped else k_heads in (1, heads)
    return statically_known_true(heads == k_heads)


def _mask_fits(found: _Attention, q: Any) -> bool:
    if found.mask is None:
        return True
    mask = _value(found.mask)
    return (
        isinstance(mask, torch.Tensor)
        and mask.dtype in (torch.bool, *_DTYPES)
        and mask.dim() <= max(q.dim(), 2)
        and not found.causal
    )


def _with_shared_heads(found: _Attention) -> _Attention:
    """Key and value before their heads were repeated, where they were, and equally often."""
    key, value = without_repeats(found.key), without_repeats(found.value)
    if key is None or value is None or key.times != value.times:
        return found
    if _value(key.node).shape[-3] * key.times != _value(found.query).shape[-3]:
        return found
    return replace(found, key=key.node, value=value.node, grouped=True)


def _order(result: Node) -> list[int]:
    """Dimensions of the result from the largest stride to the smallest.

    As the program expects them; except where everybody swaps heads and rows first and expects that
    to be contiguous, as the edge dialect has it, whose every op makes a copy.
    """
    if all(_swaps_heads_and_rows(user) and _is_in_order(user) for user in result.users):
        return [0, 2, 1, 3]
    return _order_in_memory(_value(result))


def _order_in_memory(value: torch.Tensor) -> list[int]:
    return sorted(range(value.dim()), key=lambda dim: -hint(value.stride(dim)))


def _is_in_order(node: Node) -> bool:
    return _order_in_memory(_value(node)) == [0, 1, 2, 3]


def _swaps_heads_and_rows(node: Node) -> bool:
    """Whether a node swaps the middle two of four dimensions."""
    if not isinstance(_value(node), torch.Tensor) or _value(node).dim() != 4:
        return False
    op = aten_op(node.target)
    if op in (_aten.transpose.int, _aten.transpose_copy.int):
        return {dim % 4 for dim in node.args[1:3]} == {1, 2}
    if op in (_aten.permute.default, _aten.permute_copy.default):
        return [dim % 4 for dim in node.args[1]] == [0, 2, 1, 3]
    return False


def _value(node: Node) -> Any:
    return node.meta.get("val")
