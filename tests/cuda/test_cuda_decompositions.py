"""Ops that only a decomposition brings into a CUDA program."""

from __future__ import annotations

from typing import Any

import torch
from support import lower

from aoti_plugins import CudaPartitioner


class Decomposed(torch.nn.Module):
    """Decomposed ops in one program, so that it is compiled once."""

    def __init__(self) -> None:
        super().__init__()
        self.means = torch.nn.EmbeddingBag(9, 4, mode="mean")
        self.maxima = torch.nn.EmbeddingBag(9, 4, mode="max", padding_idx=1)

    def forward(self, x: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor) -> Any:
        functional = torch.nn.functional
        return (
            functional.adaptive_avg_pool3d(x, (3, 2, 4)),
            functional.adaptive_max_pool3d(x, (2, 3, 5)),
            functional.avg_pool3d(x, 4, 2),
            *torch.median(x, 1),
            self.means(indices, offsets),
            self.maxima(indices, offsets),
            torch.index_put(x[0, 0, 0], (offsets, offsets), x[0, 0, 1, 0, : len(offsets)]),
            x[0, 0, 0].index_copy(1, offsets, x[0, 0, 1, :, : len(offsets)]),
        )


def test_the_whole_graph_is_delegated() -> None:
    inputs = (torch.randn(2, 3, 7, 8, 9), torch.tensor([1, 2, 3, 3, 8]), torch.tensor([0, 2, 2]))
    lowered = lower(Decomposed().eval(), inputs, partitioner=CudaPartitioner(target="h100"))
    plan = lowered.executorch_program.execution_plan[0]
    assert [f"{op.name}.{op.overload}" for op in plan.operators] == []
    assert len(plan.delegates) == 1
