"""Distances between points, as reductions over their differences."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor


def cdist(x: Tensor, y: Tensor, p: float, compute_mode: int | None) -> Any:
    """``aten._cdist_forward.default``: ``[..., m, k]`` and ``[..., n, k]`` to ``[..., m, n]``."""
    if p == 2 and compute_mode != 2 and _is_large(x, y):
        return NotImplemented  # PyTorch's own form is a matrix product
    return _norm(x[..., :, None, :] - y[..., None, :, :], p)


def pdist(x: Tensor, p: float = 2.0) -> Any:
    """``aten._pdist_forward.default``: of ``[n, k]``, all pairs of rows, the first one first."""
    rows = x.size(0)
    if not isinstance(rows, int):
        return NotImplemented
    if rows < 2:
        return x.new_empty(0)
    # Row by row of the upper triangle: what comes behind each row.
    return torch.cat([_norm(x[row] - x[row + 1 :], p) for row in range(rows - 1)])


def _norm(difference: Tensor, p: float) -> Tensor:
    """As PyTorch defines it; the last dimension may be empty."""
    size = difference.size(-1)
    if isinstance(size, int) and size == 0:
        return difference.sum(-1)
    difference = difference.abs()
    if p == 0:
        return (difference != 0).to(difference.dtype).sum(-1)
    if p == 1:
        return difference.sum(-1)
    if p == 2:
        return (difference * difference).sum(-1).sqrt()
    if p == math.inf:
        return difference.amax(-1)
    return difference.pow(p).sum(-1).pow(1 / p)


def _is_large(x: Tensor, y: Tensor) -> bool:
    """As ``torch.cdist`` decides."""
    return bool(x.size(-2) > 25 or y.size(-2) > 25)
