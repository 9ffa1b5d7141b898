"""Sizes that the data decides, in programs for Apple GPUs: counted there, read once, and used."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from torch import nn

from aoti_plugins import MpsPartitioner
from aoti_plugins.runtime import Program

pytestmark = pytest.mark.usefixtures("metal")


class Counted(nn.Module):
    """What is chosen by truth values, what is chosen of that, and what is repeated."""

    def forward(self, x: torch.Tensor, repeats: torch.Tensor) -> tuple[torch.Tensor, ...]:
        mask = x > 0
        chosen = x[mask]
        return (
            torch.nonzero(mask),
            chosen * 2,
            chosen[chosen > 0.5],
            torch.masked_select(x, x < 0.5).sum(),
            x[mask[:, 0]],
            torch.repeat_interleave(x, repeats, 0).sum(0),
        )


@pytest.fixture(scope="module")
def program(metal: None) -> Iterator[Program]:
    del metal
    exported = torch.export.export(Counted(), (torch.randn(5, 7), torch.ones(5).long()))
    edge = to_edge_transform_and_lower(exported, partitioner=[MpsPartitioner(target="host")])
    lowered = edge.to_executorch()
    assert lowered.executorch_program.execution_plan[0].operators == []
    with Program(bytes(lowered.buffer)) as loaded:
        yield loaded


@pytest.mark.parametrize("shift", [0, -9, 9])
def test_equal_to_eager(program: Program, shift: int) -> None:
    inputs = torch.randn(5, 7) + shift, torch.tensor([2, 0, 1, 0, 3])
    for one, expected in zip(program(*inputs), Counted()(*inputs), strict=True):
        torch.testing.assert_close(one, expected, rtol=1e-4, atol=1e-4)
