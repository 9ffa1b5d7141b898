"""Reductions over segments of an axis that lie one behind the other."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from aoti_plugins.lowering.decompositions.windows import accumulation_dtype

_NEUTRAL = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}


def segment_reduce(
    x: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Any:
    """``aten.segment_reduce.default``.

    Args:
        x: ``[*lead, n, *rest]``, floating-point, with ``axis`` dimensions before the segments.
        reduce: ``"sum"``, ``"mean"``, ``"prod"``, ``"max"`` or ``"min"``.
        lengths: ``[*lead, segments]``.
        indices: not taken, as by PyTorch.
        offsets: ``[*lead, segments + 1]``, instead of ``lengths``.
        axis: which dimension has the segments.
        unsafe: not to check the lengths; they are not checked here.
        initial: what each segment starts from.

    Returns:
        ``[*lead, segments, *rest]``. Empty means without ``initial`` are NaN.
    """
    del unsafe
    if indices is not None or (lengths is None and offsets is None):
        return NotImplemented
    if offsets is None:
        assert lengths is not None
        ends = lengths.cumsum(-1)
        starts = ends - lengths
    else:
        starts, ends = offsets[..., :-1], offsets[..., 1:]
    size = x.size(axis)
    order = torch.arange(size, device=x.device)
    member = (order >= starts[..., None]) & (order < ends[..., None])
    rest = [1] * (x.dim() - axis - 1)
    member = member.view(*member.shape, *rest)
    wide = x.unsqueeze(axis).to(accumulation_dtype(x.dtype))
    start = _NEUTRAL[reduce] if initial is None else initial
    total = _reduced(torch.where(member, wide, _NEUTRAL[reduce]), reduce, axis + 1, start)
    if reduce == "mean":
        counts = (ends - starts).view(*ends.shape, *rest)
        is_empty = (counts == 0).expand(total.shape)
        empty = math.nan if initial is None else initial
        total = torch.where(is_empty, empty, total / counts.clamp(min=1))
    return total.to(x.dtype)


def _reduced(x: Tensor, reduce: str, dim: int, start: float) -> Tensor:
    if reduce in ("sum", "mean"):
        return x.sum(dim) + start
    if reduce == "prod":
        return x.prod(dim) * start
    if reduce == "max":
        return x.amax(dim).clamp(min=start)
    return x.amin(dim).clamp(max=start)
