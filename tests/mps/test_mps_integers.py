"""Integers of 64 bits stay what they are beside constants that need fewer."""

from __future__ import annotations

import pytest
import torch
from support import lower
from torch import nn

from aoti_plugins import MpsPartitioner
from aoti_plugins.runtime import Program

pytestmark = pytest.mark.usefixtures("metal")


class Chosen(nn.Module):
    """Small constants, and large ones, instead of some elements."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            torch.where(x > 0, 5, x),
            torch.where(x > 0, x, 5),
            torch.where(x == 3, torch.full((), 7), x) + 1,
            torch.where(x < 0, 2**40, x),
            torch.where(x == 1, -(2**63), x),
            torch.full_like(x, 1) << (x & 63),
        )


def test_equal_to_eager() -> None:
    x = torch.tensor([0, 1, 3, -3, 40, 2**31, -(2**31), 2**40, -(2**40), 2**63 - 1, -(2**63)])
    program = lower(Chosen(), (x,), partitioner=MpsPartitioner(target="host"))
    with Program(program.buffer) as loaded:
        for found, expected in zip(loaded(x), Chosen()(x), strict=True):
            assert found.tolist() == expected.tolist()
