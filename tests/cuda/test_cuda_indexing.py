"""Indexing by ops equals PyTorch's own, and models that index are lowered whole without a GPU."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from torch import nn
from torch.export import export

from aoti_plugins import CudaPartitioner, MpsPartitioner
from aoti_plugins.lowering.inductor.gpu.indexing import indexed

X = torch.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
ROWS = torch.tensor([1, 0, 1])
COLUMNS = torch.tensor([2, 2, 0])
MASK = torch.arange(12).reshape(3, 4) % 3 == 0

INDICES: list[Any] = [
    1,
    -1,
    slice(None),
    slice(1, None, 2),
    None,
    ...,
    ROWS,
    (0, 2),
    (..., 0),
    (0, ..., slice(1, 3)),
    (None, 1, None, ..., None),
    (slice(None), ROWS),
    (ROWS, COLUMNS),
    (ROWS, slice(None), COLUMNS),
    (0, COLUMNS, ..., ROWS),
    (slice(None), MASK),
    (..., slice(0, 2), torch.tensor([True, False, True, True, False])),
    (ROWS[:, None], COLUMNS),
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_equals_pytorch(index: Any) -> None:
    found = indexed(X, index if isinstance(index, tuple) else (index,))
    expected = X[index]
    assert found.shape == expected.shape
    assert found.equal(expected)
    assert (found._base is X._base) == (expected._base is X._base)


class Picks(nn.Module):
    """Every way of picking rows and columns, and of writing into them."""

    def forward(self, x: torch.Tensor, places: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Four ways to pick, and one to write."""
        picked = torch.index_select(x, 0, places)
        written = torch.zeros(6, 4)
        written[1:5] = x
        written[:, 0] = 2 * written[:, 3]
        return picked * 2, x[places] + 1, x[:, places], x[1:, None, ..., 0], written


def test_picking_is_delegated_whole() -> None:
    exported = export(Picks(), (torch.randn(4, 4), torch.tensor([1, 1, 2])))
    edge = to_edge_transform_and_lower(exported, partitioner=[CudaPartitioner(target="h100")])
    assert edge.to_executorch().executorch_program.execution_plan[0].operators == []


class SumsInOneRow(nn.Module):
    """Adds the only row to itself, five times: a place and a value that are the same for all."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Six times ``x [1]``."""
        index = torch.zeros(5, dtype=torch.int64)
        return x.index_add(0, index, x.index_select(0, index))


def test_sums_in_one_row_are_masked(tmp_path: Path) -> None:
    # A block has eight threads for these five elements.
    partitioner = CudaPartitioner(target="h100", keep_sources=str(tmp_path))
    exported = export(SumsInOneRow(), (torch.ones(1),))
    to_edge_transform_and_lower(exported, partitioner=[partitioner])
    (source,) = tmp_path.rglob("wrapper.cpp")
    (mask,) = re.findall(r"tl\.atomic_add\(.*, (\w+), sem=", source.read_text())
    assert mask == "xmask"


class MovedSignal(nn.Module):
    """A convolution in one dimension of what is not contiguous."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv1d(4, 6, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer((x + 1).transpose(1, 2))


@pytest.mark.parametrize(
    "partitioner",
    [lambda: CudaPartitioner(target="h100"), lambda: MpsPartitioner()],
    ids=["cuda", "mps"],
)
def test_contiguous_copies_need_no_gpu(partitioner: Any) -> None:
    """PyTorch makes one to describe such a convolution."""
    exported = export(MovedSignal(), (torch.randn(1, 5, 4),))
    edge = to_edge_transform_and_lower(exported, partitioner=[partitioner()])
    assert edge.to_executorch().executorch_program.execution_plan[0].operators == []
