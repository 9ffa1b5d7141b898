"""A decoder whose key and value caches live in the program, fed token by token."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from aoti_plugins import runtime


def test_tokens_one_by_one(
    example_models: dict[str, Callable[[], Any]], lowered_programs: Callable[[str], Path]
) -> None:
    model, _ = example_models["decoder"]()
    expected_model = copy.deepcopy(model)
    torch.manual_seed(1)
    with runtime.Program(lowered_programs("decoder")) as program:
        for position in range(6):
            inputs = (torch.randint(0, 256, (1, 1)), torch.tensor([position]))
            with torch.no_grad():
                expected = expected_model(*inputs)
            torch.testing.assert_close(program(*inputs)[0], expected, rtol=1e-4, atol=1e-4)


def test_a_second_program_starts_with_empty_caches(
    example_models: dict[str, Callable[[], Any]], lowered_programs: Callable[[str], Path]
) -> None:
    _, inputs = example_models["decoder"]()
    later = (inputs[0], torch.tensor([5]))
    path = lowered_programs("decoder")
    with runtime.Program(path) as used, runtime.Program(path) as fresh:
        used(*inputs)
        assert not torch.equal(used(*later)[0], fresh(*later)[0])
        with runtime.Program(path) as another:
            torch.testing.assert_close(another(*later)[0], program_alone(path, later))


def program_alone(path: Path, inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
    with runtime.Program(path) as program:
        return program(*inputs)[0].clone()
