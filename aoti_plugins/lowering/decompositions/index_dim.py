"""Indices along one dim: negative ones are refused, as eager PyTorch refuses them.

PyTorch's own decompositions make ``index`` and ``index_put`` of these ops, in which a negative
index counts from the end. Here it becomes one that is out of range whatever the size, so that the
check of the generated code finds it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decomposition_table
from torch._ops import OpOverload

from aoti_plugins.lowering.decompositions import index_put

_aten = torch.ops.aten


def _without_negatives_in(op: OpOverload) -> Callable[..., Any]:
    """PyTorch's own decomposition of an op, with another index."""

    def decompose(x: Tensor, dim: int, index: Tensor, *others: Any, **named: Any) -> Any:
        return decomposition_table[op](x, dim, without_negatives(index), *others, **named)

    return decompose


index_add = _without_negatives_in(_aten.index_add.default)
index_copy = _without_negatives_in(_aten.index_copy.default)
index_select = _without_negatives_in(_aten.index_select.default)


def index_copy_on_gpu(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Any:
    """``aten.index_copy``, where the last one of equal indices has to win."""
    if x.dim() > 0 and index.dim() > 0:
        places = [*[None] * (dim % x.dim()), without_negatives(index)]
        found = index_put.index_put(x, places, source)
        if found is not NotImplemented:
            return found
    return index_copy(x, dim, index, source)


def index_fill(x: Tensor, dim: int, index: Tensor, value: Any) -> Any:
    """``aten.index_fill``; PyTorch's own makes graphs of transposed tensors that it refuses.

    Seen with PyTorch 2.11: ``copy_`` is in a graph that has to be functional. Negative indices
    count from the end, as in eager PyTorch.
    """
    is_tensor = isinstance(value, Tensor)
    filled = value if is_tensor else torch.scalar_tensor(value, dtype=x.dtype, device=x.device)
    flat = x.reshape(1) if x.dim() == 0 else x
    places = [*[None] * (dim % flat.dim()), index.reshape(-1)]
    return _aten.index_put.default(flat, places, filled.to(x)).reshape(x.shape)


def without_negatives(index: Tensor) -> Tensor:
    """The index with the largest number there is in the place of each negative one."""
    return torch.where(index < 0, torch.iinfo(index.dtype).max, index)
