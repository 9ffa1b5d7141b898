"""Embeddings and ``gather`` refuse indices below 0, as eager PyTorch does.

Inductor of PyTorch 2.11 and 2.12 counts such an index from the end, as ``x[index]`` does, so that a
wrong one reads another row. Inside the block indices below 0 are made the first one that is out of
range, which the check in the kernel finds. Patched: the entries in
``torch._inductor.lowering.lowerings``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch

from aoti_plugins.lowering.inductor.patching import patch

_EMBEDDING = torch.ops.aten.embedding.default
_GATHER = torch.ops.aten.gather.default


@patch(
    "torch._inductor.lowering.lowerings",
    why="PyTorch 2.11 and 2.12 count negative indices of embeddings and gather from the end.",
    until="PyTorch 2.12 is supported no more",
    before=(2, 13),
)
def indices_from_zero() -> Iterator[None]:
    """Negative indices of embeddings and of ``gather`` are out of range."""
    from torch._inductor.lowering import lowerings

    missing = [str(op) for op in (_EMBEDDING, _GATHER) if op not in lowerings]
    if missing:
        raise AttributeError(f"torch._inductor.lowering.lowerings has no {', '.join(missing)}")
    embedding, gather = lowerings[_EMBEDDING], lowerings[_GATHER]

    def checked_embedding(weight: Any, indices: Any, *others: Any, **named: Any) -> Any:
        return embedding(weight, _not_negative(indices, weight, 0, lowerings), *others, **named)

    def checked_gather(x: Any, dim: int, index: Any, *others: Any, **named: Any) -> Any:
        return gather(x, dim, _not_negative(index, x, dim, lowerings), *others, **named)

    with mock.patch.dict(lowerings, {_EMBEDDING: checked_embedding, _GATHER: checked_gather}):
        yield


def _not_negative(
    index: Any, table: Any, dim: int, lowerings: dict[Any, Callable[..., Any]]
) -> Any:
    """Indices with the size of a dim of the table in place of those below 0."""
    aten = torch.ops.aten
    sizes = table.get_size() or [1]
    like = {"dtype": index.get_dtype(), "device": index.get_device()}
    beyond = lowerings[aten.full.default](index.get_size(), sizes[dim], **like)
    return lowerings[aten.where.self](lowerings[aten.lt.Scalar](index, 0), beyond, index)
