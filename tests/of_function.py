"""A function as a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn


class OfFunction(nn.Module):
    """Returns what a function of its inputs returns."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._function = function

    def forward(self, *inputs: Any) -> Any:
        """Call the function."""
        return self._function(*inputs)
