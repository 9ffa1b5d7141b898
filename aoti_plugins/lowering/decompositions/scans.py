"""Running sums, maxima, minima and logarithms of sums.

Where the size is known, in as many steps as it has bits: each step takes in what lies 1, 2, 4, ...
before. Else as reductions over the elements up to each, which need no memory but square time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from aoti_plugins.lowering.decompositions import stored  # noqa: F401  (defines the operator)
from aoti_plugins.lowering.decompositions.windows import along

Combine = Callable[[Tensor, Tensor], Tensor]
Reduce = Callable[[Tensor], Tensor]


def cumsum(x: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Any:
    """``aten.cumsum.default`` of one number: Inductor looks for a size where that is known."""
    if x.dim() > 0:
        return NotImplemented
    counts = dtype is None and not (x.is_floating_point() or x.is_complex())
    return x.to(torch.int64 if counts else dtype or x.dtype, copy=True)


def cummax(x: Tensor, dim: int) -> Any:
    """``aten.cummax.default``: of equal maxima the last one, and of NaNs."""
    return _extremes(x, dim, _lowest(x.dtype), running_maximum)


def cummin(x: Tensor, dim: int) -> Any:
    """``aten.cummin.default``: of equal minima the last one, and of NaNs."""
    return _extremes(x, dim, _highest(x.dtype), _running_minimum)


def logcumsumexp(x: Tensor, dim: int) -> Any:
    """``aten.logcumsumexp.default``."""
    if not x.is_floating_point():
        return NotImplemented
    if x.dim() == 0:
        return x.clone()
    y = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    found = _scan(y, dim, -math.inf, torch.logaddexp, lambda z: torch.logsumexp(z, -1))
    return found.to(x.dtype)


def running_maximum(x: Tensor, dim: int) -> Tensor:
    """The largest of the elements up to each; NaN from the first NaN on."""
    return _scan(x, dim, _lowest(x.dtype), torch.maximum, lambda z: z.amax(-1))


def _running_minimum(x: Tensor, dim: int) -> Tensor:
    return _scan(x, dim, _highest(x.dtype), torch.minimum, lambda z: z.amin(-1))


def _extremes(x: Tensor, dim: int, start: float, running: Callable[[Tensor, int], Tensor]) -> Any:
    if x.dtype == torch.bool or x.is_complex():
        return NotImplemented
    if x.dim() == 0:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    if x.is_floating_point():  # computed anew for each use, an element may not equal itself
        x = torch.ops.aoti_plugins.stored.default(x)
    values = running(x, dim)
    order = along(torch.arange(x.size(dim), device=x.device), dim % x.dim(), x.dim())
    is_new = x == values
    if x.is_floating_point():
        is_new = is_new | x.isnan()
    return values, running_maximum(torch.where(is_new, order, 0), dim)


def _scan(x: Tensor, dim: int, start: float, combine: Combine, reduce: Reduce) -> Tensor:
    """Combine each element with all before it.

    Args:
        x: one dimension or more.
        dim: along which.
        start: combined with an element it gives the element.
        combine: of two tensors.
        reduce: the same over the last dimension.
    """
    size = x.size(dim)
    if isinstance(size, int):
        return _scan_by_doubling(x, dim, start, combine)
    rows = x.movedim(dim, -1)
    order = torch.arange(size, device=x.device)
    taken = torch.where(order <= order[:, None], rows[..., None, :], start)
    return reduce(taken).movedim(-1, dim)


def _scan_by_doubling(x: Tensor, dim: int, start: float, combine: Combine) -> Tensor:
    size = x.size(dim)
    reach = 1
    while reach < size:
        shape = [reach if axis == dim % x.dim() else n for axis, n in enumerate(x.shape)]
        before = torch.cat((x.new_full(shape, start), x.narrow(dim, 0, size - reach)), dim)
        x = combine(before, x)
        reach *= 2
    return x.clone() if size < 2 else x


def _lowest(dtype: torch.dtype) -> float:
    return -math.inf if dtype.is_floating_point else torch.iinfo(dtype).min


def _highest(dtype: torch.dtype) -> float:
    return math.inf if dtype.is_floating_point else torch.iinfo(dtype).max
