"""What the tests of signatures share: a key in files, a small model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from aoti_plugins.signing.keys import Signer


@dataclass(frozen=True)
class KeyPair:
    """A key in two PEM files."""

    private: Path
    public: Path

    @property
    def signer(self) -> Signer:
        return Signer.from_file(self.private)


class Scaled(nn.Module):
    """A layer; its weights can be put into a data file."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0, 1, 64 * 64).reshape(64, 64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight


X = torch.ones(2, 64)
