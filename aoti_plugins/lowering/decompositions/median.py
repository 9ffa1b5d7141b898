"""Medians by sorting or selecting: the lower of two middle elements.

NaNs come last. ``median`` is the first NaN if there is one, ``nanmedian`` passes over them.
Of equal elements PyTorch may point at any, and so does this.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from aoti_plugins.lowering.decompositions.order_statistics import selected_kthvalue
from aoti_plugins.lowering.decompositions.windows import quotients

Found = tuple[Tensor, Tensor]
"""Medians and their indices; both keep the dim with one element."""


def median(x: Tensor) -> Any:
    """``aten.median.default``."""
    return _of_all(x, median_dim)


def median_dim(x: Tensor, dim: int, keepdim: bool = False) -> Any:
    """``aten.median.dim``."""
    return _along(x, dim, keepdim, partial(_sorted, skip_nan=False))


def selected_median(x: Tensor) -> Any:
    """``aten.median.default`` where ``topk`` takes less time than a sort."""
    return _of_all(x, selected_median_dim)


def selected_median_dim(x: Tensor, dim: int, keepdim: bool = False) -> Any:
    """``aten.median.dim`` where ``topk`` takes less time than a sort."""
    return _along(x, dim, keepdim, _selected)


def nanmedian(x: Tensor) -> Any:
    """``aten.nanmedian.default``."""
    return _of_all(x, nanmedian_dim)


def nanmedian_dim(x: Tensor, dim: int, keepdim: bool = False) -> Any:
    """``aten.nanmedian.dim``."""
    return _along(x, dim, keepdim, partial(_sorted, skip_nan=True))


def _is_empty(x: Tensor) -> bool:
    return any(isinstance(size, int) and size == 0 for size in x.shape)


def _of_nothing(x: Tensor, dim: int, keepdim: bool) -> Any:
    """Results without elements; none where each would be the median of nothing."""
    if x.size(dim) == 0:
        return NotImplemented
    values = x.narrow(dim, 0, 1) if keepdim else x.select(dim, 0)
    return values.clone(), torch.zeros_like(values, dtype=torch.int64)


def _of_all(x: Tensor, along: Callable[[Tensor, int], Any]) -> Any:
    if _is_empty(x) and x.is_floating_point():
        return x.new_full((), math.nan)
    found = along(x.reshape(-1), 0)
    return found if found is NotImplemented else found[0]


def _along(x: Tensor, dim: int, keepdim: bool, find: Callable[[Tensor, int], Found]) -> Any:
    if _is_empty(x):
        return _of_nothing(x, dim, keepdim)
    if x.dim() == 0:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    values, indices = find(x, dim)
    return (values, indices) if keepdim else (values.squeeze(dim), indices.squeeze(dim))


def _selected(x: Tensor, dim: int) -> Found:
    values, indices = selected_kthvalue(x, (x.size(dim) + 1) // 2, dim, keepdim=True)
    if not x.is_floating_point():
        return values, indices
    nan = x.isnan().to(torch.int32)
    first_nan = nan.argmax(dim, keepdim=True)
    has_nan = nan.gather(dim, first_nan) != 0
    return torch.where(has_nan, math.nan, values), torch.where(has_nan, first_nan, indices)


def _sorted(x: Tensor, dim: int, skip_nan: bool) -> Found:
    values, indices = torch.sort(x, dim)
    if x.is_floating_point():
        return _among_nans(x, dim, skip_nan, values, indices)
    place = (x.size(dim) - 1) // 2
    return values.narrow(dim, place, 1), indices.narrow(dim, place, 1)


def _among_nans(x: Tensor, dim: int, skip_nan: bool, values: Tensor, indices: Tensor) -> Found:
    """From sorted ``values``."""
    nan = x.isnan()
    size = x.size(dim)
    numbers = size - nan.sum(dim, keepdim=True)
    place = quotients(numbers - 1, 2, size)
    if not skip_nan:
        place = torch.where(numbers < size, numbers, place)
    first_nan = nan.to(torch.int32).argmax(dim, keepdim=True)
    index = torch.where(place < numbers, indices.gather(dim, place), first_nan)
    return values.gather(dim, place), index
