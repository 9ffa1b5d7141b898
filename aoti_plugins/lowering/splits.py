"""Parts of a tensor with a dynamic first dimension, as slices.

ExecuTorch checks edge programs, and takes the first result of an op that gives a list for a list:
it asks for its length, and from then on a dynamic first dimension has the size that it had in the
example. Slices are asked nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.fx import GraphModule

from aoti_plugins.lowering.carried_ops import can_be_checked

_aten = torch.ops.aten


def slices_for_splits(modules: Iterable[GraphModule]) -> dict[OpOverload, Callable[..., Any]]:
    """Decompositions of splits that the check would make static; empty where there is none.

    Args:
        modules: graphs of an ATen program; nodes carry ``meta["val"]``.
    """
    splits = (n for module in modules for n in module.graph.nodes if n.target in _TABLE)
    return {} if all(can_be_checked(node) for node in splits) else _TABLE


def _split_with_sizes(x: Tensor, sizes: Sequence[int], dim: int = 0) -> Any:
    rows = sizes[0] if dim % x.dim() == 0 else x.size(0)
    if isinstance(rows, int):
        return NotImplemented
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    begins = [0, *ends[:-1]]
    return [_aten.slice.Tensor(x, dim, begin, end) for begin, end in zip(begins, ends, strict=True)]


def _split(x: Tensor, size: int, dim: int = 0) -> Any:
    whole = x.size(dim)
    if not isinstance(whole, int) or not isinstance(size, int) or size < 1:
        return NotImplemented
    sizes = [min(size, whole - begin) for begin in range(0, whole, size)]
    return _split_with_sizes(x, sizes or [0], dim)


def _chunk(x: Tensor, chunks: int, dim: int = 0) -> Any:
    whole = x.size(dim)
    return _split(x, -(-whole // chunks), dim) if isinstance(whole, int) else NotImplemented


_TABLE: dict[OpOverload, Callable[..., Any]] = {
    _aten.chunk.default: _chunk,
    _aten.split.Tensor: _split,
    _aten.split.sizes: _split_with_sizes,
    _aten.split_with_sizes.default: _split_with_sizes,
    _aten.unsafe_chunk.default: _chunk,
    _aten.unsafe_split.Tensor: _split,
    _aten.unsafe_split_with_sizes.default: _split_with_sizes,
}
