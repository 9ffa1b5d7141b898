"""Bags of embeddings give what PyTorch gives, also through the op that has kernels for CUDA.

On the CPU that op has none; ``tests/cuda/test_bags.py`` tests them.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from decomposed import ATEN, FLOATS, check, some
from torch._subclasses.fake_tensor import FakeTensorMode

from aoti_plugins.cuda.embedding_bags.decompositions import DECOMPOSITIONS as BY_KERNELS
from aoti_plugins.lowering.decompositions import (
    CPU_DECOMPOSITIONS,
    CUDA_DECOMPOSITIONS,
    embedding_bag,
)


def check_bags(*args: Any) -> None:
    for table in (CPU_DECOMPOSITIONS, {**CUDA_DECOMPOSITIONS, **BY_KERNELS}):
        check(ATEN._embedding_bag.default, *args, table=table)


@pytest.mark.parametrize("padding_idx", [-1, 2])
@pytest.mark.parametrize("include_last_offset", [False, True])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("dtype", FLOATS[:3])
def test_embedding_bags(
    dtype: torch.dtype, mode: str, include_last_offset: bool, padding_idx: int
) -> None:
    weight = some(6, 3, dtype=dtype)
    code = ("sum", "mean", "max").index(mode)
    factors = some(7, dtype=dtype) if mode == "sum" else None
    for starts in ([0, 2, 2, 5], [0], [0, 7]):
        offsets = torch.tensor([*starts, 7] if include_last_offset else starts)
        indices = torch.tensor([1, 2, 2, 2, 5, 0, 1])
        for given_factors in {None, factors}:
            rest = (False, code, False, given_factors, include_last_offset, padding_idx)
            check_bags(weight, indices, offsets, *rest)
            check_bags(weight, indices.int(), offsets.int(), *rest)


@pytest.mark.parametrize("mode", range(3))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_embedding_bags_that_end_early(dtype: torch.dtype, mode: int) -> None:
    offsets = torch.tensor([0, 4, 6])  # of 8 indices
    rest = (False, mode, False, None, True)
    check_bags(some(8, 3, dtype=dtype), torch.arange(8), offsets, *rest)


@pytest.mark.parametrize("padding_idx", [-1, 2])
@pytest.mark.parametrize("include_last_offset", [False, True])
@pytest.mark.parametrize("mode", range(3))
def test_embedding_bags_without_indices(
    mode: int, include_last_offset: bool, padding_idx: int
) -> None:
    for bags in (0, 2):
        offsets = torch.zeros(bags + include_last_offset, dtype=torch.int64)
        rest = (False, mode, False, None, include_last_offset, padding_idx)
        check_bags(some(6, 3), torch.zeros(0, dtype=torch.int64), offsets, *rest)


def test_no_embedding_bags() -> None:
    check_bags(some(6, 3), torch.tensor([1, 2]), torch.zeros(0, dtype=torch.int64))


def test_embedding_bag_has_the_sizes_of_the_meta_function() -> None:
    # For sums of bfloat16 those of the CPU kernel differ from it.
    weight, indices, offsets = (
        some(6, 3, dtype=torch.bfloat16),
        torch.arange(5),
        torch.tensor([0, 2]),
    )
    with FakeTensorMode() as mode:
        fakes = [mode.from_tensor(t) for t in (weight, indices, offsets)]
        expected = ATEN._embedding_bag.default(*fakes)
    found = embedding_bag.embedding_bag(weight, indices, offsets)
    assert [t.shape for t in found] == [t.shape for t in expected]
    precise = ATEN._embedding_bag.default(weight.float(), indices, offsets)[0]
    torch.testing.assert_close(found[0], precise.bfloat16())


def test_embedding_bag_with_a_negative_padding_index() -> None:
    arguments = (some(6, 3), torch.tensor([1, 5, 2]), torch.tensor([0, 2]), False, 0, False, None)
    check(ATEN.embedding_bag.padding_idx, *arguments, False, -1)
    check(ATEN.embedding_bag.padding_idx, *arguments, False, None)
    check(ATEN.embedding_bag.default, *arguments, False)
