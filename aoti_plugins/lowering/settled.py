"""Programs of which a trace before ExecuTorch's own would make nothing else.

A trace costs time with every layer. By itself it does what ExecuTorch's first one does: what writes
becomes functional, and composite ops that may give views are taken apart. The rest are kept as they
are, unless they are in its table.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import GraphModule, Node

from aoti_plugins.lowering.memory_formats import becomes_row_major, has_format

_aten = torch.ops.aten
_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd

_SHAPED = _aten.view.default, _aten._unsafe_view.default, _aten.clone.default

PARTS: dict[OpOverload, tuple[OpOverload, ...]] = {
    _aten.broadcast_to.default: (_aten.expand.default,),
    _aten.chunk.default: (_aten.split.Tensor, _aten.split_with_sizes.default),
    _aten.contiguous.default: (_aten.clone.default,),
    _aten.expand_as.default: (_aten.expand.default,),
    _aten.flatten.using_ints: _SHAPED,
    _aten.mT.default: (_aten.transpose.int,),
    _aten.movedim.int: (_aten.permute.default,),
    _aten.movedim.intlist: (_aten.permute.default,),
    _aten.narrow.default: (_aten.slice.Tensor,),
    _aten.numpy_T.default: (_aten.permute.default,),
    _aten.ravel.default: _SHAPED,
    _aten.reshape.default: _SHAPED,
    _aten.reshape_as.default: _SHAPED,
    _aten.split.sizes: (_aten.split_with_sizes.default,),
    _aten.swapaxes.default: (_aten.transpose.int,),
    _aten.swapdims.default: (_aten.transpose.int,),
    _aten.to.device: (_aten._to_copy.default,),
    _aten.to.dtype: (_aten._to_copy.default,),
    _aten.to.dtype_layout: (_aten._to_copy.default,),
    _aten.to.other: (_aten._to_copy.default,),
    _aten.unflatten.int: _SHAPED,
    _aten.view_as.default: (_aten.view.default,),
}
"""Ops that every trace takes apart, and what into: views, casts, and copies in a layout that is
named."""

WRITES = {
    _aten.index_copy_.default: _aten.index_copy.default,
    _aten.index_put_.default: _aten.index_put.default,
}
"""Writes that become one op each, whose result is row-major if what is written to is."""


def is_settled(modules: Sequence[GraphModule], decomposed: Collection[OpOverload]) -> bool:
    """Whether decomposing some ops, and making copies row-major, would change nothing.

    True only where that is certain.

    Args:
        modules: all graphs of an ATen program; nodes carry ``meta["val"]``.
        decomposed: the ops.
    """
    nodes = [n for module in modules for n in module.graph.nodes if n.op == "call_function"]
    return all(_is_kept(node, decomposed) for node in nodes)


def _is_kept(node: Node, decomposed: Collection[OpOverload]) -> bool:
    op = node.target
    if not isinstance(op, OpOverload):
        return not isinstance(op, HigherOrderOperator)
    if becomes_row_major(node):
        return False
    if op._schema.is_mutable:
        return op is _aten.detach_.default or _is_plain_write(node, decomposed)
    if _is_copy(node):
        return all(map(has_format, _operands(node)))
    if _is_taken_apart(op):
        return op in PARTS and all(part not in decomposed for part in PARTS[op])
    return op not in decomposed  # composite or not, it stays whole


def _is_taken_apart(op: OpOverload) -> bool:
    """Whether every trace takes an op apart, and asks no table about it."""
    if torch.Tag.maybe_aliasing_or_mutating in op.tags or op is _aten.native_batch_norm.default:
        return True
    values = (*op._schema.arguments, *op._schema.returns)
    is_composite = op.has_kernel_for_dispatch_key(_COMPOSITE)
    return bool(is_composite) and any(one.alias_info is not None for one in values)


def _is_plain_write(node: Node, decomposed: Collection[OpOverload]) -> bool:
    """Whether all layouts stay what they are when a write becomes functional."""
    functional: Any = WRITES.get(node.target)
    if functional is None or functional in decomposed:
        return False
    written = node.all_input_nodes[0]
    value: Any = written.meta.get("val")
    if written.op != "placeholder" or not isinstance(value, Tensor):
        return False
    return all(isinstance(size, int) for size in value.shape) and value.is_contiguous()


def _is_copy(node: Node) -> bool:
    """Whether a node becomes a copy in the layout of its operand; dropout that is off does."""
    if node.target is not _aten.dropout.default:
        return node.target is _aten.lift_fresh_copy.default
    given = dict(zip(("input", "p", "train"), node.args, strict=False)) | node.kwargs
    return given["train"] is False


def _operands(node: Node) -> list[Tensor]:
    values = (one.meta.get("val") for one in node.all_input_nodes)
    return [value for value in values if isinstance(value, Tensor)]
