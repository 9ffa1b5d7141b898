"""Programs for Apple GPUs, run by the real delegate and runtime over a stand-in for Metal."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from mps_support import SCHEDULES

from aoti_plugins.runtime import Program

TOLERANCES = {torch.float32: 1e-4, torch.bfloat16: 2e-2}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", ["mlp", "cnn", "transformer", "transformer_bf16", "lstm"])
def test_equal_to_eager(
    name: str,
    schedule: str,
    metal: None,
    mps_programs: Callable[..., Path],
    example_models: dict[str, Callable[[], Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("METAL_HOST_SCHEDULE", schedule)
    model, inputs = example_models[name]()
    with torch.no_grad():
        expected = model(*inputs)
    with Program(mps_programs(name, "host")) as program:
        (found,) = program(*inputs)
    tolerance = TOLERANCES[expected.dtype]
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_decoder_keeps_its_caches(
    schedule: str,
    metal: None,
    mps_programs: Callable[..., Path],
    example_models: dict[str, Callable[[], Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("METAL_HOST_SCHEDULE", schedule)
    model, _ = example_models["decoder"]()
    expected_model = copy.deepcopy(model)
    torch.manual_seed(1)
    with Program(mps_programs("decoder", "host")) as program:
        for position in range(3):
            inputs = (torch.randint(0, 256, (1, 1)), torch.tensor([position]))
            with torch.no_grad():
                expected = expected_model(*inputs)
            torch.testing.assert_close(program(*inputs)[0], expected, rtol=1e-4, atol=1e-4)
