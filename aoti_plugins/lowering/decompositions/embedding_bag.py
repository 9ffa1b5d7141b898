"""Sums, means and maxima over bags of rows of a table."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from aoti_plugins.lowering.decompositions.windows import accumulation_dtype

_SUM, _MEAN, _MAX = range(3)


Reduced = tuple[Tensor, Tensor]
"""``[bags, width]``: the results, and of maxima the indices that they are from."""


@dataclass(frozen=True)
class Bags:
    """What is to be reduced: the arguments of ``aoti_plugins::reduce_bags``, in its order.

    Attributes:
        weight: ``[rows, width]``.
        indices: ``[n]``, int32 or int64, rows of ``weight``.
        offsets: ``[bags]`` or ``[bags + 1]``, where each bag starts in ``indices``; ascending
            from 0.
        count: how many bags there are.
        stops: whether the last bag ends where ``offsets`` says; else it takes all that is left.
        factors: ``[n]``, of the rows of a sum.
        padding_idx: rows of this index do not count; negative for none.
        is_max: maxima rather than sums.
    """

    weight: Tensor
    indices: Tensor
    offsets: Tensor
    count: int | torch.SymInt
    stops: bool
    factors: Tensor | None
    padding_idx: int
    is_max: bool


def embedding_bag(*args: Any, **named: Any) -> Any:
    """``aten._embedding_bag`` and ``aten._embedding_bag_forward_only``, results as on the CPU."""
    return reduced_by(reduced, *args, **named)


def reduced_by(
    reduce: Callable[[Bags], Reduced],
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
    """The results of ``aten._embedding_bag`` as on the CPU, given what reduces bags.

    Args:
        reduce: sums or maxima of bags.
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
    starts = offsets[: offsets.size(0) - 1] if include_last_offset else offsets
    is_fast = _is_fast(weight, per_sample_weights, padding_idx)
    if _is_empty(indices, starts):
        return _nothing_reduced(weight, indices, starts, mode, is_fast)
    # The fast path stops at the last offset, the other one goes on.
    stops = include_last_offset and is_fast and mode != _MAX
    factors = per_sample_weights
    values, chosen = reduce(
        Bags(weight, indices, offsets, starts.size(0), stops, factors, padding_idx, mode == _MAX)
    )
    is_sum = mode == _SUM
    sizes = torch.zeros_like(starts) if is_sum else _bag_sizes(starts, indices, padding_idx)
    if mode == _MEAN:
        values = values / sizes.clamp(min=1)[:, None]
    values = values.to(weight.dtype)
    if is_sum and is_fast:
        return values, offsets.new_empty(0), sizes, sizes.clone()
    bag = _bag_of_each(starts, indices).to(offsets.dtype)
    return values, bag, sizes, chosen.to(offsets.dtype) if mode == _MAX else sizes.clone()


def _nothing_reduced(
    weight: Tensor, indices: Tensor, starts: Tensor, mode: int, is_fast: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The results where there are no indices, or no bags."""
    shape = (starts.size(0), weight.size(1))
    of_no_bag = indices.new_full((0 if is_fast and mode == _SUM else indices.size(0),), -1)
    chosen = indices.new_zeros(shape) if mode == _MAX else torch.zeros_like(starts)
    return weight.new_zeros(shape), of_no_bag, torch.zeros_like(starts), chosen


def reduced(bags: Bags) -> Reduced:
    """Each row is added where its bag is; maxima are looked for among all rows."""
    indices, padding_idx = bags.indices, bags.padding_idx
    bag = _bag_of_each(bags.offsets[: bags.count], indices)
    rows = bags.weight[indices]
    kept = indices != padding_idx if padding_idx >= 0 else None
    if bags.is_max:
        return _maxima(rows, indices, bag, kept, bags.count)
    if bags.stops:
        kept = torch.arange(indices.size(0), device=indices.device) < bags.offsets[-1]
    rows = rows.to(accumulation_dtype(rows.dtype))
    if bags.factors is not None:
        rows = rows * bags.factors[:, None]
    if kept is not None:
        rows = torch.where(kept[:, None], rows, 0)
    total = rows.new_zeros(bags.count, rows.size(1)).index_add(0, bag, rows)
    return total, indices.new_empty(0)


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
    return torch.ops.aten._embedding_bag_forward_only.default(weight, indices, offsets, *how)


def _bag_of_each(starts: Tensor, indices: Tensor) -> Tensor:
    """``[n]``, int64, the bag of each index: how many bags start up to it, less one."""
    begun = torch.zeros(indices.size(0) + 1, dtype=torch.int32, device=indices.device)
    begun = begun.index_add(0, starts, torch.ones_like(starts, dtype=torch.int32))
    return begun.cumsum(0)[: indices.size(0)] - 1


def _bag_sizes(starts: Tensor, indices: Tensor, padding_idx: int) -> Tensor:
    ends = torch.cat((starts[1:], starts.new_full((1,), indices.size(0))))
    sizes = ends - starts
    if padding_idx < 0:
        return sizes
    # In int32: GPUs do not add to int64 atomically.
    left_out = (indices == padding_idx).int()
    bag = _bag_of_each(starts, indices)
    return sizes - torch.zeros_like(sizes, dtype=torch.int32).index_add(0, bag, left_out)


def _maxima(
    rows: Tensor, indices: Tensor, bag: Tensor, kept: Tensor | None, count: int | torch.SymInt
) -> tuple[Tensor, Tensor]:
    """Maxima, and the indices they are at; both 0 in an empty bag."""
    member = bag == torch.arange(count, device=bag.device)[:, None]
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
