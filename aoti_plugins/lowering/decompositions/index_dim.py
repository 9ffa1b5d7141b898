"""Indices along one dim: negative ones are refused, as eager PyTorch refuses them.

PyTorch's own decompositions make ``index`` and ``index_put`` of these ops, in which a negative
index counts from the end. Here it becomes one that is out of range whatever the size, so that the
check of the generated code finds it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch._decomp import decomposition_table

from aoti_plugins.lowering.decompositions import index_put

_aten = torch.ops.aten


def index_add(x: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Any:
    """``aten.index_add``."""
    decomposed = decomposition_table[_aten.index_add.default]
    return decomposed(x, dim, without_negatives(index), source, alpha=alpha)


def index_copy(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Any:
    """``aten.index_copy``."""
    decomposed = decomposition_table[_aten.index_copy.default]
    return decomposed(x, dim, without_negatives(index), source)


def index_copy_on_gpu(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Any:
    """``aten.index_copy``, where the last one of equal indices has to win."""
    found = index_put.index_copy(x, dim, without_negatives(index), source)
    return index_copy(x, dim, index, source) if found is NotImplemented else found


def index_select(x: Tensor, dim: int, index: Tensor) -> Any:
    """``aten.index_select``."""
    decomposed = decomposition_table[_aten.index_select.default]
    return decomposed(x, dim, without_negatives(index))


def without_negatives(index: Tensor) -> Tensor:
    """The index with the largest number there is in the place of each negative one."""
    return torch.where(index < 0, torch.iinfo(index.dtype).max, index)
