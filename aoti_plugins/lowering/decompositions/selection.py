"""Elements chosen by a mask, and reductions into chosen places."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from aoti_plugins.lowering.decompositions.search import place_among
from aoti_plugins.lowering.decompositions.windows import along


def masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Any:
    """``aten.masked_scatter.default``: the first elements of ``source``, one for each set one."""
    mask, x = torch.broadcast_tensors(mask, x)
    if isinstance(source.numel(), int) and source.numel() == 0:
        return x.clone()
    place = mask.reshape(-1).cumsum(0) - 1
    place = place.clamp(0, source.numel() - 1).view(x.shape)
    return torch.where(mask, source.reshape(-1)[place], x)


def nonzero_static(x: Tensor, *, size: int, fill_value: int = -1) -> Any:
    """``aten.nonzero_static.default``: ``[size, x.dim()]``, rows too many are ``fill_value``."""
    if not all(isinstance(n, int) for n in (*x.shape, size)):
        return NotImplemented
    if x.numel() == 0 or x.dim() == 0 or size == 0:
        return torch.full((size, x.dim()), fill_value, dtype=torch.int64, device=x.device)
    counted = (x != 0).reshape(-1).cumsum(0)
    order = torch.arange(size, device=x.device)
    place = place_among(counted, order, right=True)
    is_found = order < counted[-1]
    place = place.clamp(max=x.numel() - 1)
    columns = [_indices(x, dim)[place] for dim in range(x.dim())]
    return torch.stack([torch.where(is_found, column, fill_value) for column in columns], 1)


def index_reduce(
    x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Any:
    """``aten.index_reduce.default``: as ``scatter_reduce`` with one index for each slice."""
    if x.dim() == 0:
        return NotImplemented
    index = along(index, dim % x.dim(), x.dim()).expand(source.shape)
    return x.scatter_reduce(dim, index, source, reduce, include_self=include_self)


def _indices(x: Tensor, dim: int) -> Tensor:
    """``[numel]``: the index along ``dim`` of each element."""
    order = torch.arange(x.size(dim), device=x.device)
    return along(order, dim, x.dim()).expand(x.shape).reshape(-1)
