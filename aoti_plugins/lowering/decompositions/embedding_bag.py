"""Sums, means and maxima over bags of rows of a table."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from aoti_plugins.lowering.decompositions.windows import accumulation_dtype

_SUM, _MEAN, _MAX = range(3)


def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> Any:
    """``aten._embedding_bag`` and ``aten._embedding_bag_forward_only``, results as on the CPU.

    Args:
        weight: ``[rows, width]``.
        indices: ``[n]``, int32 or int64, rows of ``weight``.
        offsets: where each bag starts in ``indices``; ascending, the first is 0.
        scale_grad_by_freq: for gradients only.
        mode: 0 for sums, 1 for means, 2 for maxima.
        sparse: for gradients only.
        per_sample_weights: ``[n]``, factors of the rows of a sum.
        include_last_offset: whether the last of ``offsets`` only says where the last bag ends.
        padding_idx: rows of this index do not count; negative for none.

    Returns:
        ``[bags, width]``, the results; ``[n]`` or empty, the bag of each index; ``[bags]``,
        how many rows each bag has, zeros for sums; ``[bags, width]``, the indices that maxima
        are from, or else the same as the third.
    """
    del scale_grad_by_freq, sparse
    if _is_empty(indices, offsets[1:] if include_last_offset else offsets):
        return NotImplemented
    starts = offsets[: offsets.size(0) - 1] if include_last_offset else offsets
    bag = _bags(starts, indices)
    kept = indices != padding_idx if padding_idx >= 0 else None
    offset2bag = bag.to(offsets.dtype)
    rows = weight[indices]
    if mode == _MAX:
        sizes = _bag_sizes(starts, indices, bag, kept)
        values, chosen = _maxima(rows, indices, bag, kept, starts.size(0))
        return values, offset2bag, sizes, chosen.to(offsets.dtype)
    is_fast = _is_fast(weight, per_sample_weights, padding_idx)
    if include_last_offset and is_fast:  # the fast path stops there, the other one goes on
        order = torch.arange(indices.size(0), device=indices.device)
        added: Tensor | None = order < offsets[-1]
    else:
        added = kept
    total = _sums(rows, bag, added, per_sample_weights, starts.size(0))
    if mode == _MEAN:
        sizes = _bag_sizes(starts, indices, bag, kept)
        total = total / sizes.clamp(min=1)[:, None]
    else:
        sizes = torch.zeros_like(starts)
        if is_fast:
            offset2bag = offsets.new_empty(0)
    return total.to(weight.dtype), offset2bag, sizes, sizes.clone()


def composite_embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """``aten.embedding_bag``: a negative ``padding_idx`` counts from the end."""
    index = -1 if padding_idx is None else padding_idx % weight.size(0)
    how = (scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, index)
    found = embedding_bag(weight, indices, offsets, *how)
    if found is NotImplemented:  # which is no answer for a composite op
        return torch.ops.aten._embedding_bag_forward_only.default(weight, indices, offsets, *how)
    return found


def _bags(starts: Tensor, indices: Tensor) -> Tensor:
    """``[n]``, int64, the bag of each index: how many bags start up to it, less one."""
    begun = torch.zeros(indices.size(0) + 1, dtype=torch.int32, device=indices.device)
    begun = begun.index_add(0, starts, torch.ones_like(starts, dtype=torch.int32))
    return begun.cumsum(0)[: indices.size(0)] - 1


def _bag_sizes(starts: Tensor, indices: Tensor, bag: Tensor, kept: Tensor | None) -> Tensor:
    ends = torch.cat((starts[1:], starts.new_full((1,), indices.size(0))))
    sizes = ends - starts
    if kept is None:
        return sizes
    # In int32: GPUs do not add to int64 atomically.
    left_out = torch.zeros_like(sizes, dtype=torch.int32).index_add(0, bag, (~kept).int())
    return sizes - left_out


def _sums(
    rows: Tensor, bag: Tensor, kept: Tensor | None, factors: Tensor | None, bags: int
) -> Tensor:
    rows = rows.to(accumulation_dtype(rows.dtype))
    if factors is not None:
        rows = rows * factors[:, None]
    if kept is not None:
        rows = torch.where(kept[:, None], rows, 0)
    return rows.new_zeros(bags, rows.size(1)).index_add(0, bag, rows)


def _maxima(
    rows: Tensor, indices: Tensor, bag: Tensor, kept: Tensor | None, bags: int
) -> tuple[Tensor, Tensor]:
    """Maxima, and the indices they are at; both 0 in an empty bag."""
    member = bag == torch.arange(bags, device=bag.device)[:, None]
    if kept is not None:
        member = member & kept
    candidates = torch.where(member[:, :, None], rows, -math.inf)
    filled = member.any(1, keepdim=True)
    chosen = indices[candidates.argmax(1)]
    return torch.where(filled, candidates.amax(1), 0), torch.where(filled, chosen, 0)


def _is_fast(weight: Tensor, factors: Tensor | None, padding_idx: int) -> bool:
    """Whether PyTorch adds up on its fast path, which has no use for ``offset2bag``."""
    strides = (weight.stride(1), 1 if factors is None else factors.stride(0))
    is_fast = weight.dtype in (torch.float32, torch.float16) and strides == (1, 1)
    return is_fast and padding_idx < 0


def _is_empty(*tensors: Tensor) -> bool:
    return any(isinstance(t.size(0), int) and t.size(0) == 0 for t in tensors)
