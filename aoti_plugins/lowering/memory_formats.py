"""Copies that keep a layout for which ExecuTorch has no memory format.

``x.clone()`` and ``x.to(dtype)`` keep the order of the strides of ``x``. Where that is neither
row-major nor channels-last, as for an input that was transposed, ExecuTorch fails to make an edge
program. The elements are the same in a row-major copy. It also fails at the casts that it puts in
itself, before sums and products of tensors of two dtypes; those are put in here, then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes
from torch.fx import GraphModule, Node

_aten = torch.ops.aten
_CHANNELS_LAST = (0, 2, 3, 1)
_KEEPS = (None, torch.preserve_format)


def row_major_copies(modules: Iterable[GraphModule]) -> dict[OpOverload, Callable[..., Any]]:
    """Decompositions that make such copies row-major; empty where nothing has such a layout.

    Also what other decompositions make of an op may copy its operand.

    Args:
        modules: graphs of an ATen program; nodes carry ``meta["val"]``.
    """
    values = (node.meta.get("val") for module in modules for node in module.graph.nodes)
    return _TABLE if any(isinstance(x, Tensor) and not has_format(x) for x in values) else {}


def becomes_row_major(node: Node) -> bool:
    """Whether the decompositions make something else of a node than PyTorch does.

    Args:
        node: it and its arguments carry ``meta["val"]``.
    """
    if node.target not in _TABLE:
        return False
    operands = (n.meta.get("val") for n in node.all_input_nodes)
    without = [x for x in operands if isinstance(x, Tensor) and not has_format(x)]
    if node.target in _PROMOTED:
        return any(x.dtype != node.meta["val"].dtype for x in without)
    return bool(without) and not _is_its_operand(node)


def _is_its_operand(node: Node) -> bool:
    """Whether ``aten.to`` has nothing to do."""
    given, operand = node.meta["val"], node.all_input_nodes[0].meta["val"]
    return bool(given.untyped_storage()._cdata == operand.untyped_storage()._cdata)


def has_format(x: Tensor) -> bool:
    """Whether ExecuTorch has a memory format for a tensor's layout."""
    return x.dim_order() in (tuple(range(x.dim())), _CHANNELS_LAST)


def _clone(x: Tensor, *, memory_format: torch.memory_format | None = None) -> Any:
    if memory_format not in _KEEPS or has_format(x):
        return NotImplemented
    return _aten.clone(x, memory_format=torch.contiguous_format)


def _to_copy(x: Tensor, *, memory_format: torch.memory_format | None = None, **options: Any) -> Any:
    if memory_format not in _KEEPS or has_format(x):
        return NotImplemented
    return _aten._to_copy(x, memory_format=torch.contiguous_format, **options)


def _converted(
    x: Tensor,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: torch.memory_format | None = None,
    *,
    pin_memory: bool | None = None,
    **options: Any,
) -> Any:
    """``aten.to`` in any form: the dtype and what else the result is to have are ``options``."""
    wanted = {name: value for name, value in options.items() if value is not None}
    same = all(getattr(x, name) == value for name, value in wanted.items())
    if same and not copy and memory_format in _KEEPS:
        return x
    return _aten._to_copy(x, memory_format=memory_format, **wanted)


def _to_dtype(x: Tensor, dtype: torch.dtype, *how: Any, **named: Any) -> Any:
    return _converted(x, *how, dtype=dtype, **named)


def _to_device(x: Tensor, device: torch.device, dtype: torch.dtype, *how: Any, **named: Any) -> Any:
    return _converted(x, *how, dtype=dtype, device=device, **named)


def _to_other(x: Tensor, other: Tensor, *how: Any, **named: Any) -> Any:
    return _converted(x, *how, dtype=other.dtype, device=other.device, **named)


def _promoted(op: OpOverload, kind: ELEMENTWISE_TYPE_PROMOTION_KIND) -> Callable[..., Any]:
    """An op whose operands without a format are cast before it, where their dtypes differ."""

    def compute(x: Any, y: Any, **options: Any) -> Any:
        chosen = kind
        if op is _aten.div.Tensor_mode and options.get("rounding_mode") is None:
            chosen = _TO_FLOAT
        dtype = elementwise_dtypes(x, y, type_promotion_kind=chosen)[1]
        cast = [_cast(value, dtype) for value in (x, y)]
        if cast[0] is x and cast[1] is y:
            return NotImplemented
        return op(*cast, **options)

    return compute


def _cast(value: Any, dtype: torch.dtype) -> Any:
    if not isinstance(value, Tensor) or value.dtype == dtype or has_format(value):
        return value
    return _aten._to_copy(value, dtype=dtype, memory_format=torch.contiguous_format)


_DEFAULT = ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT
_TO_FLOAT = ELEMENTWISE_TYPE_PROMOTION_KIND.INT_TO_FLOAT

# As in executorch/exir/passes/remove_mixed_type_operators.py.
_PROMOTED: dict[OpOverload, ELEMENTWISE_TYPE_PROMOTION_KIND] = {
    _aten.add.Tensor: _DEFAULT,
    _aten.mul.Tensor: _DEFAULT,
    _aten.sub.Tensor: _DEFAULT,
    _aten.div.Tensor: _TO_FLOAT,
    _aten.div.Tensor_mode: _DEFAULT,
    _aten.minimum.default: _DEFAULT,
}

_TABLE: dict[OpOverload, Callable[..., Any]] = {
    _aten.clone.default: _clone,
    _aten._to_copy.default: _to_copy,
    _aten.to.dtype: _to_dtype,
    _aten.to.device: _to_device,
    _aten.to.other: _to_other,
    _aten.to.dtype_layout: _converted,
    **{op: _promoted(op, kind) for op, kind in _PROMOTED.items()},
}
