"""Programs that ExecuTorch's own CUDA backend lowered on this GPU equal eager on our runtime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from aoti_plugins.errors import ProgramError
from aoti_plugins.runtime import Method, Program, backends

pytestmark = pytest.mark.gpu

Lowered = Callable[[str, str], Path]
Calls = list[tuple[str, torch.Tensor, torch.Tensor]]


def load(folder: Path) -> Program:
    """The program, with the weights that upstream keeps outside of it."""
    return Program(folder / "model.pte", data_files=sorted(folder.glob("*.ptd")))


def expected_calls(folder: Path) -> Calls:
    """What eager PyTorch gave, call by call."""
    calls: Calls = torch.load(folder / "calls.pt")
    return calls


def check_calls(methods: dict[str, Method], calls: Calls) -> None:
    """Makes the calls, in their order, and compares."""
    for name, x, expected in calls:
        outputs: Any = methods[name](x)
        torch.testing.assert_close(outputs[-1].cpu(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("generation", ["listed", "keyed", "named"])
@pytest.mark.parametrize("model", ["mlp", "counter"])
def test_equals_eager(model: str, generation: str, upstream_programs: Lowered) -> None:
    folder = upstream_programs(model, generation)
    calls = expected_calls(folder)
    for _ in range(2):  # what is closed leaves no state and no memory that the next one would see
        with load(folder) as program, program.method() as method:
            check_calls({"forward": method}, calls)
    assert "CudaBackend" in backends()


def test_methods_share_a_buffer(upstream_programs: Lowered) -> None:
    folder = upstream_programs("both", "listed")
    with load(folder) as program, program.method("count") as count, program.method("look") as look:
        check_calls({"count": count, "look": look}, expected_calls(folder))


def test_graphs(upstream_programs: Lowered) -> None:
    folder = upstream_programs("counter", "listed")
    calls = expected_calls(folder)
    options = {"CudaBackend": {"cuda_graphs": True}}
    with load(folder) as program, program.method(options=options) as method:
        check_calls({"forward": method}, calls)


@pytest.mark.parametrize("generation", ["listed", "keyed", "named"])
def test_weights_that_are_missing_are_named(generation: str, upstream_programs: Lowered) -> None:
    folder = upstream_programs("mlp", generation)
    with (
        Program(folder / "model.pte") as program,
        pytest.raises(ProgramError, match="are not in the program or its data files"),
    ):
        program.method()
