"""Copies that keep a layout for which ExecuTorch has no memory format.

``x.clone()`` and ``x.to(dtype)`` keep the order of the strides of ``x``. Where that is neither
row-major nor channels-last, as for an input that was transposed, ExecuTorch fails to make an edge
program. The elements are the same in a row-major copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.fx import GraphModule

_aten = torch.ops.aten
_CHANNELS_LAST = (0, 2, 3, 1)
_KEEPS = (None, torch.preserve_format)


def row_major_copies(modules: Iterable[GraphModule]) -> dict[OpOverload, Callable[..., Any]]:
    """Decompositions that make such copies row-major; empty where there is no such copy.

    Args:
        modules: graphs of an ATen program; nodes carry ``meta["val"]``.
    """
    copied = [
        node.args[0].meta.get("val")
        for module in modules
        for node in module.graph.nodes
        if node.target in _TABLE
    ]
    return _TABLE if any(isinstance(x, Tensor) and not _has_format(x) for x in copied) else {}


def _has_format(x: Tensor) -> bool:
    return x.dim_order() in (tuple(range(x.dim())), _CHANNELS_LAST)


def _clone(x: Tensor, *, memory_format: torch.memory_format | None = None) -> Any:
    if memory_format not in _KEEPS or _has_format(x):
        return NotImplemented
    return _aten.clone(x, memory_format=torch.contiguous_format)


def _to_copy(x: Tensor, *, memory_format: torch.memory_format | None = None, **options: Any) -> Any:
    if memory_format not in _KEEPS or _has_format(x):
        return NotImplemented
    return _aten._to_copy(x, memory_format=torch.contiguous_format, **options)


def _converted(
    x: Tensor, copy: bool, memory_format: torch.memory_format | None, **options: Any
) -> Any:
    wanted = {name: value for name, value in options.items() if value is not None}
    same = all(getattr(x, name) == value for name, value in wanted.items())
    if same and not copy and memory_format in _KEEPS:
        return x
    return _aten._to_copy(x, memory_format=memory_format, **wanted)


def _to_dtype(
    x: Tensor,
    dtype: torch.dtype,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: torch.memory_format | None = None,
) -> Any:
    return _converted(x, copy, memory_format, dtype=dtype)


def _to_device(
    x: Tensor,
    device: torch.device,
    dtype: torch.dtype,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: torch.memory_format | None = None,
) -> Any:
    return _converted(x, copy, memory_format, dtype=dtype, device=device)


def _to_other(
    x: Tensor,
    other: Tensor,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: torch.memory_format | None = None,
) -> Any:
    return _converted(x, copy, memory_format, dtype=other.dtype, device=other.device)


def _to_layout(
    x: Tensor,
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: torch.memory_format | None = None,
) -> Any:
    return _converted(x, copy, memory_format, dtype=dtype, layout=layout, device=device)


_TABLE: dict[OpOverload, Callable[..., Any]] = {
    _aten.clone.default: _clone,
    _aten._to_copy.default: _to_copy,
    _aten.to.dtype: _to_dtype,
    _aten.to.device: _to_device,
    _aten.to.other: _to_other,
    _aten.to.dtype_layout: _to_layout,
}
