"""A part of a model with kernels of all kinds, and what a program says of them."""

from __future__ import annotations

import torch
from torch import nn


class Block(nn.Module):
    """A product, a convolution and a fused kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.project, self.smooth = nn.Linear(8, 8), nn.Conv1d(1, 2, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.smooth(torch.relu(self.project(x))[:, None]).softmax(-1)


def check_kernels(kernels: list[dict[str, list[str]]]) -> None:
    """The product, the convolution and what is fused are there, and where each is from."""
    ops = [set(one["ops"]) for one in kernels]
    assert any("aten.linear.default" in one for one in ops)
    assert any("aten.conv1d.default" in one for one in ops)
    assert any("aten.softmax.int" in one or "aten._softmax.default" in one for one in ops)
    modules = {module for one in kernels for module in one["modules"]}
    assert {"project (Linear)", "smooth (Conv1d)"} <= modules
    assert all(one["lines"] for one in kernels)
