"""Products of groups of rows equal those of one group after the other."""

from __future__ import annotations

import pytest
import torch

from aoti_plugins.lowering.decompositions.row_groups import products_of_groups

GROUPS = [
    [3, 0, 5, 1],
    [0, 0, 0, 0],
    [1, 2, 0, 0],
    [40, 0, 1, 23],
    [0, 0, 0, 100],
    [100, 0, 0, 0],
    [30, 31, 33, 7],
]


@pytest.mark.parametrize("sizes", GROUPS, ids=str)
@pytest.mark.parametrize("behind", [0, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_each_group_times_its_matrix(sizes: list[int], behind: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    rows = torch.randn(sum(sizes) + behind, 6, dtype=dtype)
    matrices = torch.randn(4, 5, 6, dtype=dtype).mT
    ends = torch.tensor(sizes).cumsum(0).to(torch.int32)
    expected, start = torch.zeros(len(rows), 5, dtype=dtype), 0
    for matrix, end in zip(matrices, ends.tolist(), strict=True):
        expected[start:end] = rows[start:end] @ matrix
        start = end
    torch.testing.assert_close(products_of_groups(rows, matrices, ends), expected)


def test_any_number_of_rows() -> None:
    class Grouped(torch.nn.Module):
        def forward(self, rows: torch.Tensor, matrices: torch.Tensor, ends: torch.Tensor) -> object:
            return products_of_groups(rows, matrices, ends)

    ends, matrices = torch.tensor([2, 2, 9], dtype=torch.int32), torch.randn(3, 4, 5)
    rows = torch.export.Dim("rows", min=1, max=64)
    exported = torch.export.export(
        Grouped(), (torch.randn(9, 4), matrices, ends), dynamic_shapes=({0: rows}, None, None)
    )
    for size in (1, 5, 9, 40):
        x = torch.randn(size, 4)
        torch.testing.assert_close(
            exported.module()(x, matrices, ends), products_of_groups(x, matrices, ends)
        )
