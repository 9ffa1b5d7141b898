"""Volumes sampled at places that a grid gives."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor

from aoti_plugins.lowering.decompositions.windows import accumulation_dtype

_BILINEAR, _NEAREST = range(2)
_ZEROS, _BORDER, _REFLECTION = range(3)


def grid_sampler_3d(
    x: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    """``aten.grid_sampler_3d.default``.

    Args:
        x: ``[batch, channels, depth, height, width]``.
        grid: ``[batch, *outs, 3]``, places from -1 to 1 along width, height and depth.
        interpolation_mode: 0 between neighbours, 1 the nearest.
        padding_mode: what is outside: 0 zeros, 1 the border, 2 a reflection.
        align_corners: whether -1 and 1 are the middles of the outermost elements.

    Returns:
        ``[batch, channels, *outs]``.
    """
    wide = accumulation_dtype(x.dtype)
    sizes = [x.size(4), x.size(3), x.size(2)]
    places = [
        _place(grid[..., axis].to(wide), size, padding_mode, align_corners)
        for axis, size in enumerate(sizes)
    ]
    if interpolation_mode == _NEAREST:
        nearest = [place.round() for place in places]
        return _picked(x, nearest, sizes).to(x.dtype)
    low = [place.floor() for place in places]
    total: Any = 0
    for corner in itertools.product((0, 1), repeat=3):
        at = [one + step for one, step in zip(low, corner, strict=True)]
        weight: Any = 1
        for place, floor, step in zip(places, low, corner, strict=True):
            part = place - floor
            weight = weight * (part if step else 1 - part)
        total = total + _picked(x, at, sizes).to(wide) * weight[:, None]
    return total.to(x.dtype)


def _place(grid: Tensor, size: int, padding_mode: int, align_corners: bool) -> Tensor:
    """In elements, before the outside is looked at."""
    place = (grid + 1) / 2 * (size - 1) if align_corners else ((grid + 1) * size - 1) / 2
    if padding_mode == _ZEROS:
        return place
    if padding_mode == _REFLECTION:
        bounds = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
        place = _reflected(place, *bounds)
    return place.clamp(0, size - 1)


def _reflected(place: Tensor, low: float, high: float) -> Tensor:
    span = high - low
    if isinstance(span, float) and span == 0:
        return torch.zeros_like(place)
    distance = (place - low).abs()
    turns = (distance / span).floor()
    rest = distance - turns * span
    return torch.where(turns % 2 == 0, rest, span - rest) + low


def _picked(x: Tensor, at: list[Tensor], sizes: list[int]) -> Tensor:
    """``[batch, channels, *outs]``: elements at whole places, 0 outside."""
    inside = torch.ones_like(at[0], dtype=torch.bool)
    index = []
    for place, size in zip(at, sizes, strict=True):
        is_in = (place >= 0) & (place < size)
        inside = inside & is_in
        index.append(torch.where(is_in, place, 0).to(torch.int64)[:, None])
    shape = [1] * (x.dim() - 2)
    batch = torch.arange(x.size(0), device=x.device).view(-1, 1, *shape)
    channel = torch.arange(x.size(1), device=x.device).view(1, -1, *shape)
    found = torch.ops.aten._unsafe_index(x, [batch, channel, index[2], index[1], index[0]])
    return torch.where(inside[:, None], found, 0)
