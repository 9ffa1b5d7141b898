"""The three-dimensional convolutions of ExecuTorch's operator suite.

The suite skips every program that has one, delegated or not, so its runs say nothing about them.
Here its own tests are asked for their models and inputs, and all of those make one program.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest
import torch
from torch import nn

SUITE = "executorch.backends.test.suite.operators"


class Convolutions(nn.Module):
    """Each model with an input of its own."""

    def __init__(self, models: list[nn.Module]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)

    def forward(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        """One output per model."""
        return [model(x) for model, x in zip(self.models, inputs, strict=True)]


def cases_of(name: str) -> Iterator[tuple[str, Any]]:
    """The tests of one of the suite's files, by name."""
    for key, value in vars(import_module(f"{SUITE}.{name}")).items():
        if key.startswith("test_") and callable(value):
            yield key, value


@pytest.mark.parametrize("name", ["test_conv3d", "test_convtranspose3d"])
def test_of_the_suite(name: str, check: Callable[..., None]) -> None:
    torch.manual_seed(0)
    models: list[nn.Module] = []
    inputs: list[torch.Tensor] = []

    def collect(model: nn.Module, args: tuple[torch.Tensor], **_: Any) -> None:
        models.append(model.eval())
        inputs.extend(args)

    runner = types.SimpleNamespace(lower_and_run_model=collect, _flow=None)
    count = 0
    for key, test in cases_of(name):
        count += 1
        test(runner, torch.float32) if key.endswith("_dtype") else test(runner)
    assert count == 12
    assert len(models) == len(inputs) >= count
    check(Convolutions(models), *inputs, rtol=1e-4, atol=1e-4)
