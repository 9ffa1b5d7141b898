"""Products with weights of four bits, as PyTorch packs them for each kind of GPU.

The weight is ``[n / 8, k / (inner * 16), 32, inner / 2]`` of int32, eight numbers in each. It is
for ``(q - 8) * scale + zero``, with a scale and a zero for each group along ``k``, which are
``[k / group_size, n, 2]``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def mm_for_tensor_cores(x: Tensor, weight: Tensor, group_size: int, scales: Tensor) -> Any:
    """``aten._weight_int4pack_mm.default`` with a weight that was packed on an NVIDIA GPU."""
    if not isinstance(weight.size(0), int):
        return NotImplemented
    return _product(x, rows_for_tensor_cores(weight), group_size, scales)


def mm_for_metal(x: Tensor, weight: Tensor, group_size: int, scales: Tensor) -> Any:
    """``aten._weight_int4pack_mm.default`` with a weight that was packed on an Apple GPU."""
    rows = _nibbles(weight).reshape(weight.size(0) * 8, -1)
    return _product(x, rows, group_size, scales)


def rows_for_tensor_cores(weight: Tensor) -> Tensor:
    """The numbers ``[n, k]``, from 0 to 15, of a weight that was packed on an NVIDIA GPU."""
    tiles, outer, _, words = weight.shape
    # A lane has a row, and two columns in each quarter of two tiles of 16 columns.
    split = _nibbles(weight).view(tiles, outer, 8, 4, words, 2, 2, 2)
    return split.permute(0, 2, 1, 4, 6, 7, 3, 5).reshape(tiles * 8, -1)


def _nibbles(weight: Tensor) -> Tensor:
    """The numbers of each element in a dimension of their own, the lowest bits first."""
    shifts = torch.arange(0, 32, 4, dtype=torch.int32, device=weight.device)
    return (weight[..., None] >> shifts) & 15


def _product(x: Tensor, rows: Tensor, group_size: int, scales: Tensor) -> Tensor:
    """``x [m, k]`` times the transpose of what ``rows [n, k]`` stands for."""
    groups = (rows - 8).to(x.dtype).unflatten(1, (-1, group_size))
    scale, zero = (scales[..., part].t()[..., None] for part in (0, 1))
    return x @ (groups * scale + zero).flatten(1).t()
