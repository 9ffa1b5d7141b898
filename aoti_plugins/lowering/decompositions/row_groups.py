"""Groups of rows, each times a matrix of its own: what models with experts compute.

How many rows a group has is known only when the program runs, all sizes here are known before. With
few rows each is multiplied by its matrix where that lies in memory, in one generated kernel. Many
are cut into tiles of one group, the last of a group filled up, so that one batch of products does
all of them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from aoti_plugins.lowering.decompositions.windows import accumulation_dtype

_SMALLEST_TILE = 8
_LARGEST_TILE = 64
_TILE_OF_ANY_SIZE = 16


def products_of_groups(rows: Tensor, matrices: Tensor, ends: Tensor) -> Tensor:
    """Each group of rows times its matrix; rows behind the last group are 0.

    Args:
        rows: ``[n, k]``, one group behind the other.
        matrices: ``[groups, k, m]``.
        ends: ``[groups]``, integers: the row at which each group ends.

    Returns:
        ``[n, m]``, of the dtype of ``rows``.
    """
    order = torch.arange(rows.size(0), device=ends.device)
    group = _group_of(order, ends)
    is_inside = group < matrices.size(0)
    group = group.clamp(max=matrices.size(0) - 1)
    if are_few(rows, matrices):
        found = _one_by_one(rows, matrices, group)
    else:
        found = _in_tiles(rows, matrices, ends, group)
    return torch.where(is_inside[:, None], found, 0)


def grouped_mm_of_transformers(rows: Tensor, matrices: Tensor, ends: Tensor) -> Tensor:
    """``transformers::grouped_mm_fallback``, by which transformers exports experts."""
    return products_of_groups(rows, matrices, ends)


def _group_of(places: Tensor, ends: Tensor) -> Tensor:
    """The group of each place; as many as there are groups, for one behind the last."""
    return (places[:, None] >= ends).sum(1)


def are_few(rows: Tensor, matrices: Tensor) -> bool:
    """Whether reading a matrix for each row costs no more than gathering them for tiles."""
    size = rows.size(0)
    return isinstance(size, int) and size <= 2 * matrices.size(0)


def _one_by_one(rows: Tensor, matrices: Tensor, group: Tensor) -> Tensor:
    return wide_sums(rows[:, :, None], matrices[group], 1)


def wide_sums(left: Tensor, right: Tensor, dim: int) -> Tensor:
    """Sums of products along a dim, added up in float32 or more; of the dtype of ``left``."""
    wide = accumulation_dtype(left.dtype)
    return (left.to(wide) * right.to(wide)).sum(dim).to(left.dtype)


def _in_tiles(rows: Tensor, matrices: Tensor, ends: Tensor, group: Tensor) -> Tensor:
    """Tiles of all groups, of which there are never more than ``n // tile + groups``."""
    size, groups = rows.size(0), matrices.size(0)
    tile = _tile(size, groups)
    starts = torch.cat((torch.zeros_like(ends[:1]), ends[:-1]))
    last = ((ends - starts + tile - 1) // tile).cumsum(0)
    first = torch.cat((torch.zeros_like(last[:1]), last[:-1]))
    tiles = torch.arange(size // tile + groups, device=ends.device)
    of = _group_of(tiles, last).clamp(max=groups - 1)
    begin = starts[of] + (tiles - first[of]) * tile
    places = begin[:, None] + torch.arange(tile, device=ends.device)
    filled = torch.nn.functional.pad(rows, (0, 0, 0, 1))
    products = torch.bmm(filled[places.clamp(max=size)], matrices[of])
    within = torch.arange(size, device=ends.device) - starts[group]
    return products[first[group] + within // tile, within % tile]


def _tile(size: int | torch.SymInt, groups: int) -> int:
    """Rows of a tile: about as many as a group has."""
    if not isinstance(size, int):
        return _TILE_OF_ANY_SIZE
    tile = _SMALLEST_TILE
    while tile < _LARGEST_TILE and tile * groups < size:
        tile *= 2
    return tile
