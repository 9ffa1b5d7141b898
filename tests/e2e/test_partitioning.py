"""What cannot be delegated stays outside, with a warning that helps, and the program still runs."""

from __future__ import annotations

import logging

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from support import CdistOutside, lower
from torch import nn

from aoti_plugins import CpuPartitioner
from aoti_plugins.plugin_system.manager import get_manager
from aoti_plugins.runtime import Program


class Middle(nn.Module):
    """An op without a C shim between two parts that can be delegated."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.last = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x).relu()
        steps = torch.cdist(hidden, hidden)
        return self.last(hidden) + steps.sum()


def _delegates(program: object) -> list[bytes]:
    execution = program.executorch_program.execution_plan[0]  # type: ignore[attr-defined]
    return [d.id for d in execution.delegates]


def test_unsupported_op_in_the_middle(caplog: pytest.LogCaptureFixture) -> None:
    torch.manual_seed(0)
    model = Middle().eval()
    x = torch.randn(3, 8)
    outside = get_manager().registered(CdistOutside(), "cdist-outside")
    with outside, caplog.at_level(logging.WARNING, "aoti_plugins"):
        lowered = lower(model, (x,))
    assert _delegates(lowered) == ["AotiCpuBackend", "AotiCpuBackend"]
    message = "\n".join(r.getMessage() for r in caplog.records)
    assert "aten._cdist_forward.default" in message
    assert "test_partitioning.py" in message
    assert "steps = torch.cdist(hidden, hidden)" in message
    assert "Middle" in message
    assert "hook aoti_fallback_kernels" in message
    with Program(bytes(lowered.buffer)) as program, torch.no_grad():
        torch.testing.assert_close(program(x)[0], model(x), rtol=1e-4, atol=1e-5)


class Offset(nn.Module):
    """A constant that only the delegate reads."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("offset", torch.arange(4.0), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.offset


def test_a_program_is_lowered_twice() -> None:
    exported = torch.export.export(Offset(), (torch.zeros(4),))
    for _ in range(2):
        edge = to_edge_transform_and_lower(exported, partitioner=[CpuPartitioner()])
        with Program(bytes(edge.to_executorch().buffer)) as program:
            torch.testing.assert_close(program(torch.ones(4))[0], torch.arange(4.0) + 1)


def test_nothing_to_delegate() -> None:
    class Identity(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x

    lowered = lower(Identity(), (torch.ones(2),))
    assert _delegates(lowered) == []


def test_method_names_come_from_the_lowering() -> None:
    from aoti_plugins.payload import decode

    class Two(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    exported = torch.export.export(Two(), (torch.ones(2),))
    lowered = to_edge_transform_and_lower(
        {"encode": exported, "decode": exported},
        partitioner=[CpuPartitioner()],
    ).to_executorch()
    plans = {p.name: p for p in lowered.executorch_program.execution_plan}
    data = lowered.executorch_program.backend_delegate_data
    for name, plan in plans.items():
        payload = decode(bytes(data[plan.delegates[0].processed.index].data))
        assert payload.method == name
    with Program(bytes(lowered.buffer)) as program:
        assert set(program.methods) == {"encode", "decode"}
        for name in program.methods:
            found = program.method(name)(torch.ones(2))[0]
            torch.testing.assert_close(found, torch.full((2,), 2.0))
