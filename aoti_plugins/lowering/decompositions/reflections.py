"""Factors of matrices by reflections of Householder's."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_MOST_COLUMNS = 128


def geqrf(a: Tensor) -> Any:
    """``aten.geqrf.default``: ``R``, with the vectors of the reflections below it, and factors.

    One step for each column, so the code grows with their number.
    """
    rows, columns = a.shape[-2:]
    if a.dtype not in (torch.float32, torch.float64):
        return NotImplemented
    if not isinstance(rows, int) or not isinstance(columns, int):
        return NotImplemented
    count = min(rows, columns)
    if count > _MOST_COLUMNS:
        return NotImplemented
    if count == 0:
        return a.clone(), a.new_empty(*a.shape[:-2], 0)
    factors = []
    for step in range(count):
        a, factor = _reflected(a, step)
        factors.append(factor)
    return a, torch.stack(factors, -1)


def _reflected(a: Tensor, step: int) -> tuple[Tensor, Tensor]:
    """``a`` after one more reflection, ``1 - factor * vector @ vector.T``, and its factor."""
    row = torch.arange(a.size(-2), device=a.device)
    column = torch.arange(a.size(-1), device=a.device)
    first = a[..., step, step]
    below = torch.where(row > step, a[..., :, step], 0)
    largest_below = below.abs().amax(-1)
    is_done = largest_below == 0
    # Squares of very large and very small numbers are out of range.
    largest = torch.maximum(first.abs(), largest_below)
    scale = torch.where(largest == 0, 1, largest)
    rest = torch.square(below / scale[..., None]).sum(-1)
    length = scale * torch.sqrt(torch.square(first / scale) + rest)
    diagonal = torch.where(is_done, first, torch.where(first < 0, length, -length))
    factor = torch.where(is_done, 0, (diagonal - first) / torch.where(is_done, 1, diagonal))
    vector = below / torch.where(is_done, 1, first - diagonal)[..., None]
    whole = torch.where(row == step, 1, vector)  # 0 above the step, so nothing changes there
    along = (whole[..., :, None] * a).sum(-2) * factor[..., None]
    reflected = a - whole[..., :, None] * along[..., None, :]
    stored = torch.where(row == step, diagonal[..., None], vector)
    stored = torch.where(row < step, a[..., :, step], stored)
    a = torch.where(column > step, reflected, a)
    return torch.where(column == step, stored[..., :, None], a), factor
