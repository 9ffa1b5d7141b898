"""Ops that only a decomposition brings into a CUDA program."""

from __future__ import annotations

from pathlib import Path
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
        self.table, self.of = torch.randn(9, 4), torch.tensor([3, 1])

    def forward(self, x: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor) -> Any:
        functional = torch.nn.functional
        return (
            functional.adaptive_avg_pool3d(x, (3, 2, 4)),
            functional.adaptive_max_pool3d(x, (2, 3, 5)),
            functional.avg_pool3d(x, 4, 2),
            *torch.median(x, 1),
            self.means(indices, offsets),
            self.maxima(indices, offsets),
            functional.embedding_bag(indices, self.table, offsets),
            functional.embedding_bag(self.of, self.table, offsets[:2], mode="max"),
            torch.index_put(x[0, 0, 0], (offsets, offsets), x[0, 0, 1, 0, : len(offsets)]),
            x[0, 0, 0].index_copy(1, offsets, x[0, 0, 1, :, : len(offsets)]),
        )


def test_the_whole_graph_is_delegated() -> None:
    inputs = (torch.randn(2, 3, 7, 8, 9), torch.tensor([1, 2, 3, 3, 8]), torch.tensor([0, 2, 2]))
    lowered = lower(Decomposed().eval(), inputs, partitioner=CudaPartitioner(target="h100"))
    plan = lowered.executorch_program.execution_plan[0]
    assert [f"{op.name}.{op.overload}" for op in plan.operators] == []
    assert len(plan.delegates) == 1


def test_searches_are_as_pytorch_does_them(tmp_path: Path) -> None:
    class Search(torch.nn.Module):
        def forward(self, rows: torch.Tensor, x: torch.Tensor) -> Any:
            return torch.searchsorted(rows[1:], x), torch.searchsorted((rows * 2)[2:], x)

    partitioner = CudaPartitioner(target="h100", keep_sources=str(tmp_path))
    lower(Search(), (torch.arange(9.0), torch.randn(4)), partitioner=partitioner)
    code = "".join(path.read_text() for path in tmp_path.rglob("wrapper.cpp"))
    assert code.count("bucketize_binary_search(") == 2
    assert "isnan(" in code
