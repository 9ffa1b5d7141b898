"""Where numbers belong among sorted ones."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from aoti_plugins.lowering.decompositions import stored  # noqa: F401  (defines the operator)

_FEW = 16


def bucketize(x: Tensor, boundaries: Tensor, **options: Any) -> Any:
    """``aten.bucketize.Tensor``: the same as ``searchsorted``."""
    return torch.ops.aten.searchsorted.Tensor(boundaries, x, **options)


def bucketize_number(x: float, boundaries: Tensor, **options: Any) -> Any:
    """``aten.bucketize.Scalar``."""
    return searchsorted_number(boundaries, x, **options)


def searchsorted(
    rows: Tensor,
    x: Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Any:
    """``aten.searchsorted.Tensor``: rows ``[n]``, or ``[..., n]`` with ``x [..., k]``.

    NaN belongs behind all, since every comparison with it fails. Where there is NaN among the rows,
    places may differ from PyTorch's, which depend on its way through them.
    """
    if sorter is not None:
        rows = rows.gather(-1, sorter)
    rows, x = _in_one_dtype(rows, x)
    behind_equal = right or side == "right"
    size = rows.size(-1)
    if isinstance(size, int) and size > _FEW:
        places = _by_halving(rows, x, behind_equal)
    else:
        sorted_ = rows[..., None, :] if rows.dim() > 1 else rows
        places = _is_before(sorted_, x[..., None], behind_equal).sum(-1)
    return places.to(torch.int32) if out_int32 else places


def searchsorted_on_cuda(
    rows: Tensor, x: Tensor, *, sorter: Tensor | None = None, **options: Any
) -> Any:
    """``aten.searchsorted.Tensor`` in the form that Triton can search.

    That is one dtype, no sorter (Triton 3.6), and not nothing (likewise).
    """
    if sorter is not None or rows.dtype != x.dtype:
        rows = rows if sorter is None else rows.gather(-1, sorter)
        return torch.ops.aten.searchsorted.Tensor(*_in_one_dtype(rows, x), **options)
    if isinstance(rows.size(-1), int) and rows.size(-1) == 0:
        is_short = options.get("out_int32", False)
        return torch.zeros_like(x, dtype=torch.int32 if is_short else torch.int64)
    return NotImplemented


def searchsorted_number(rows: Tensor, x: float, **options: Any) -> Any:
    """``aten.searchsorted.Scalar``."""
    dtype = torch.result_type(rows, x) if isinstance(x, float) else torch.int64
    one = torch.full((), x, dtype=dtype, device=rows.device)
    return torch.ops.aten.searchsorted.Tensor(rows, one, **options)


def place_among(rows: Tensor, x: Tensor, right: bool) -> Tensor:
    """Before how many of the sorted numbers each of ``x`` belongs, as each device finds it.

    Args:
        rows: ``[n]`` for any ``x``, or ``[..., n]`` with ``x [..., k]``; ascending.
        x: what is looked for, of the same dtype.
        right: whether behind equal ones, rather than before them.

    Returns:
        int64, the shape of ``x``: from 0 to ``n``.
    """
    return torch.ops.aten.searchsorted.Tensor(rows, x, right=right)


def _by_halving(rows: Tensor, x: Tensor, right: bool) -> Tensor:
    size = rows.size(-1)
    rows = torch.ops.aoti_plugins.stored.default(rows)
    place = torch.zeros_like(x, dtype=torch.int64)
    for bit in reversed(range(size.bit_length())):
        further = place + 2**bit
        last = (further - 1).clamp(max=size - 1)
        is_row = rows.dim() == 1
        passed = torch.ops.aten.index.Tensor(rows, [last]) if is_row else rows.gather(-1, last)
        steps = (further <= size) & _is_before(passed, x, right)
        place = torch.where(steps, further, place)
    return place


def _in_one_dtype(rows: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """In the one that PyTorch compares in; a tensor without dims does not widen that of rows."""
    dtype = torch.result_type(rows, x)
    return rows.to(dtype), x.to(dtype)


def _is_before(sorted_: Tensor, x: Tensor, right: bool) -> Tensor:
    return ~(sorted_ > x) if right else ~(sorted_ >= x)
