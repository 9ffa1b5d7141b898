"""Buffers that a program writes to, and sizes that are known only when it runs."""

from __future__ import annotations

import pytest
import torch
from executorch.exir import ExecutorchBackendConfig
from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass
from support import CdistOutside, lower
from torch import nn

from aoti_plugins.errors import ProgramError
from aoti_plugins.plugin_system.manager import get_manager
from aoti_plugins.runtime import Program


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x)
        return self.total * 2


class Shared(nn.Module):
    """A buffer that two partitions and the op between them use."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(3, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        distances = torch.cdist(self.seen + x, x)
        result = distances @ self.seen
        self.seen.add_(x)
        return result


class Written(nn.Module):
    """A buffer whose new value comes from outside the delegate."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.zeros(3, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = self.last * 1.5
        self.last.copy_(torch.cdist(x + 1, x))
        return before


# ExecuTorch stores the first value of a buffer that it owns itself only when asked to.
@pytest.mark.filterwarnings("ignore:Mutation on a buffer")
@pytest.mark.parametrize("model", [Counter, Shared, Written])
def test_buffers_keep_their_values(model: type[nn.Module]) -> None:
    torch.manual_seed(0)
    x = torch.randn(3) if model is Counter else torch.randn(3, 2)
    eager = model().eval()
    config = ExecutorchBackendConfig(passes=[InitializedMutableBufferPass(["seen", "last"])])
    with get_manager().registered(CdistOutside(), "cdist-outside"):
        lowered = lower(model().eval(), (x,), config=config)
    with Program(bytes(lowered.buffer)) as program, torch.no_grad():
        method = program.method()
        for factor in (1.0, -2.0, 0.5):
            expected = eager(x * factor)
            torch.testing.assert_close(method(x * factor)[0], expected, rtol=1e-4, atol=1e-5)
        fresh = program.method()  # starts anew
        torch.testing.assert_close(fresh(x)[0], model()(x), rtol=1e-4, atol=1e-5)


def test_a_dynamic_batch_and_its_bound() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval()
    batch = torch.export.Dim("batch", min=1, max=8)
    lowered = lower(model, (torch.randn(3, 8),), dynamic_shapes=({0: batch},))
    with Program(bytes(lowered.buffer)) as program, torch.no_grad():
        for size in (1, 5, 8):
            x = torch.randn(size, 8)
            torch.testing.assert_close(program(x)[0], model(x), rtol=1e-4, atol=1e-5)
        with pytest.raises(ProgramError, match="at most 8"):
            program(torch.randn(9, 8))
        with pytest.raises(ProgramError, match="size 0 in dim 0, expected 1 to 8"):
            program(torch.randn(0, 8))


def test_integer_power_does_not_end_the_lowering() -> None:
    class Power(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.pow(x + 1, x)

    x = torch.arange(4)
    with Program(bytes(lower(Power(), (x,)).buffer)) as program:
        torch.testing.assert_close(program(x)[0], Power()(x))
