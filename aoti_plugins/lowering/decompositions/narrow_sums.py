"""Sums of integers of 8 and 16 bits at scattered places, which Triton has no atomics for.

They are added up in 32 bits, whose lowest bits are those of the narrow sum, overflow included.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_NARROW = (torch.int8, torch.uint8, torch.int16)


def scatter_add(x: Tensor, dim: int, index: Tensor, src: Tensor) -> Any:
    """``aten.scatter_add``."""
    return scatter_reduce(x, dim, index, src, "sum")


def scatter(x: Tensor, dim: int, index: Tensor, src: Tensor, *, reduce: str) -> Any:
    """``aten.scatter.reduce``."""
    return scatter_reduce(x, dim, index, src, "sum") if reduce == "add" else NotImplemented


def scatter_number(x: Tensor, dim: int, index: Tensor, value: float, *, reduce: str) -> Any:
    """``aten.scatter.value_reduce``."""
    if reduce != "add" or x.dtype not in _NARROW:
        return NotImplemented
    src = torch.full(index.shape, int(value), dtype=torch.int32, device=x.device)
    return x.int().scatter_reduce(dim, index, src, "sum").to(x.dtype)


def scatter_reduce(
    x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Any:
    """``aten.scatter_reduce.two``."""
    if reduce != "sum" or x.dtype not in _NARROW:
        return NotImplemented
    wide = x.int().scatter_reduce(dim, index, src.int(), "sum", include_self=include_self)
    return wide.to(x.dtype)
