"""The examples give eager's results, through our Program class and through the stock runtime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support import needs_executorchs_extension

from aoti_plugins import runtime

TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 2e-2}
NAMES = ["mlp", "cnn", "transformer", "transformer_bf16", "lstm"]


def _check(found: torch.Tensor, expected: torch.Tensor) -> None:
    """Relative to the largest value, so that sums that cancel to nearly nothing do not decide."""
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    error = (found.double() - expected.double()).abs().max() / expected.double().abs().max()
    assert error < TOLERANCE[expected.dtype]


@pytest.mark.parametrize("name", NAMES)
def test_program(
    name: str,
    example_models: dict[str, Callable[[], Any]],
    lowered_programs: Callable[[str], Path],
) -> None:
    model, inputs = example_models[name]()
    with runtime.Program(lowered_programs(name)) as program:
        for seed in range(3):
            torch.manual_seed(seed)
            fresh = [_like(value) for value in inputs]
            with torch.no_grad():
                _check(program(*fresh)[0], model(*fresh))


@needs_executorchs_extension
@pytest.mark.parametrize("name", ["mlp", "cnn", "transformer"])
def test_stock_runtime(
    name: str,
    example_models: dict[str, Callable[[], Any]],
    lowered_programs: Callable[[str], Path],
) -> None:
    from executorch.runtime import Runtime

    runtime.register()
    model, inputs = example_models[name]()
    method = Runtime.get().load_program(lowered_programs(name)).load_method("forward")
    with torch.no_grad():
        _check(method.execute(list(inputs))[0], model(*inputs))


def _like(value: torch.Tensor) -> torch.Tensor:
    if value.is_floating_point():
        return torch.randn_like(value)
    return torch.randint_like(value, 0, 256)
