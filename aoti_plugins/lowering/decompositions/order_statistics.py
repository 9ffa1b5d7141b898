"""The place of the largest element, the k-th smallest and the most frequent one."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from aoti_plugins.lowering.decompositions import stored  # noqa: F401  (defines the operator)
from aoti_plugins.lowering.decompositions.scans import running_maximum


def argmax(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """``aten.argmax.default`` over all elements, in the order of rows.

    Inductor may count places in the order of memory.
    """
    return _over_all(torch.argmax, x, dim, keepdim)


def argmin(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """``aten.argmin.default``; see ``argmax``."""
    return _over_all(torch.argmin, x, dim, keepdim)


def _over_all(find: Any, x: Tensor, dim: int | None, keepdim: bool) -> Any:
    if dim is not None or x.dim() < 2:
        return NotImplemented
    found: Tensor = find(torch.ops.aoti_plugins.stored.default(x).reshape(-1), 0)
    return found.reshape([1] * x.dim()) if keepdim else found


def kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """``aten.kthvalue.default``: NaNs are above everything; of equal elements any is pointed at."""
    if x.dim() == 0:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    values, indices = torch.sort(x, dim)
    values, indices = values.narrow(dim, k - 1, 1), indices.narrow(dim, k - 1, 1)
    return (values, indices) if keepdim else (values.squeeze(dim), indices.squeeze(dim))


def selected_kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """``aten.kthvalue.default`` where ``topk`` takes less time than a sort.

    The k-th smallest is the largest of the k smallest, which nobody needs in order.
    """
    if x.dim() == 0:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    smallest, indices = torch.topk(x, k, dim, largest=False, sorted=False)
    last = smallest.argmax(dim, keepdim=True)
    found = (smallest.gather(dim, last), indices.gather(dim, last))
    return found if keepdim else tuple(one.squeeze(dim) for one in found)


def mode(x: Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """``aten.mode.default``: of equally frequent ones the smallest, and its last place."""
    if x.dim() == 0:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    empty = [place for place, size in enumerate(x.shape) if isinstance(size, int) and size == 0]
    if x.dtype == torch.bool or dim % x.dim() in empty:
        return NotImplemented
    if empty:
        found = x.narrow(dim, 0, 1)
        found = found if keepdim else found.squeeze(dim)
        return found.clone(), torch.zeros_like(found, dtype=torch.int64)
    values, indices = torch.sort(x.movedim(dim, -1), stable=True)
    order = torch.arange(values.size(-1), device=x.device)
    is_first = (values != values.roll(1, -1)) | (order == 0)
    run = order - running_maximum(torch.where(is_first, order, 0), -1)
    longest = run.argmax(-1, keepdim=True)
    found = (values.gather(-1, longest), indices.gather(-1, longest))
    if keepdim:
        return tuple(one.movedim(-1, dim) for one in found)
    return tuple(one.squeeze(-1) for one in found)
