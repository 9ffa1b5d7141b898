"""Several models as one, so that they are lowered together."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor, nn


class Each(nn.Module):
    """Several models, each with an input of its own."""

    def __init__(self, models: Iterable[nn.Module]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)

    def forward(self, inputs: list[Tensor]) -> list[Tensor]:
        return [model(x) for model, x in zip(self.models, inputs, strict=True)]
