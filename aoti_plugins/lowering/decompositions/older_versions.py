"""What PyTorch 2.11 or 2.12 generates wrongly, silently or not at all."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from aoti_plugins.lowering.decompositions import complex_numbers


def flip(x: Tensor, dims: list[int]) -> Any:
    """``aten.flip.default`` of one element, besides what newer versions have."""
    if x.dim() == 0:
        return x.clone()
    return complex_numbers.MOVES[torch.ops.aten.flip.default](x, dims)


def vector_norm(
    x: Tensor,
    order: float = 2,
    dims: list[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Any:
    """``aten.linalg_vector_norm.default``: negative dims of size 1 were kept."""
    if dims is None or all(dim >= 0 for dim in dims):
        return NotImplemented
    dims = [dim % max(x.dim(), 1) for dim in dims]
    return torch.ops.aten.linalg_vector_norm.default(x, order, dims, keepdim, dtype=dtype)
