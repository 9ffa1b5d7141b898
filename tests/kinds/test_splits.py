"""Parts of a tensor whose first dimension is dynamic: it stays so."""

from __future__ import annotations

import torch
from support import lower
from torch import nn
from torch.export import Dim

from aoti_plugins.runtime import Program


class Splits(nn.Module):
    """Each way to split that ExecuTorch's check of edge programs would make static, and others."""

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        parts = [
            *x.chunk(2, -1),
            *x.unsafe_chunk(4, 1),
            *x.split(4, 1),
            *x.unsafe_split(5, 1),
            *x.split([1, 2, 3], 1),
            *x.unsafe_split_with_sizes([2, 4], 1),
            *x.tensor_split(4, 1),
            *x.unbind(1)[:2],
            *x[None].chunk(2, -1),
            *x.mT.split(4, 0),
        ]
        return [part * 2 for part in parts]


def test_splits_leave_the_first_dimension_dynamic() -> None:
    model = Splits()
    lowered = lower(model, (torch.randn(3, 6),), dynamic_shapes=({0: Dim("rows", max=9)},))
    with Program(bytes(lowered.buffer)) as program:
        for rows in (3, 9, 1, 0):
            x = torch.randn(rows, 6)
            for one, other in zip(program(x), model(x), strict=True):
                torch.testing.assert_close(one, other)
