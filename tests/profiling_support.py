"""A part of a model with kernels of all kinds."""

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
