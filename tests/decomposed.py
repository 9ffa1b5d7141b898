"""Ops and their decompositions, compared eagerly."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

from aoti_plugins.lowering.decompositions import CUDA_DECOMPOSITIONS

ATEN = torch.ops.aten
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def check(op: Any, *args: Any, table: Any = CUDA_DECOMPOSITIONS, **options: Any) -> None:
    """Compare the decomposition of an op with the op, which may add 16-bit floats up in 16 bits."""
    found = table[op](*args, **options)
    assert found is not NotImplemented
    precise = op(*pytree.tree_map_only(torch.Tensor, in_float32, args), **options)
    pairs = zip(*map(pytree.tree_leaves, (found, op(*args, **options), precise)), strict=True)
    for one, other, exact in pairs:
        is_short = other.dtype in (torch.float16, torch.bfloat16)
        expected = exact.to(other.dtype) if is_short else other
        torch.testing.assert_close(one, expected, equal_nan=True)


def in_float32(value: torch.Tensor) -> torch.Tensor:
    return value.float() if value.dtype in (torch.float16, torch.bfloat16) else value


def some(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator).to(dtype)
