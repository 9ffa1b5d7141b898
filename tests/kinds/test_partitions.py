"""Programs of several delegates: ours, others', in one line and inside of control flow."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from support import lower
from torch import nn
from torch._higher_order_ops.map import map as map_op
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.export import export

from aoti_plugins import CpuPartitioner
from aoti_plugins.payload import decode
from aoti_plugins.runtime import Program, backends

OURS = "AotiCpuBackend"


def delegates(lowered: Any, method: int = 0) -> list[str]:
    return [one.id for one in lowered.executorch_program.execution_plan[method].delegates]


class Twice(nn.Module):
    """The same work twice, around an op that stays outside."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            x = torch.cdist(torch.tanh(x @ x * 0.1), x)
        return x


@torch.no_grad()
def test_two_partitions_with_the_same_code() -> None:
    lowered = lower(Twice(), (torch.randn(6, 6),))
    assert delegates(lowered) == [OURS, OURS]
    data = lowered.executorch_program.backend_delegate_data
    plan = lowered.executorch_program.execution_plan[0]
    payloads = [decode(bytes(data[one.processed.index].data)) for one in plan.delegates]
    blobs = {payload.targets[0].artifact_key for payload in payloads}
    assert len(blobs) == 1  # the code is stored once
    with Program(bytes(lowered.buffer)) as program:
        x = torch.randn(6, 6)
        torch.testing.assert_close(program(x)[0], Twice()(x), rtol=1e-3, atol=1e-3)


class SharedWeight(nn.Module):
    """A weight and a constant that both the delegate and an op outside use."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weight = nn.Parameter(torch.randn(5, 6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        step = torch.tensor([[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]])
        distances = torch.cdist(torch.tanh(x), self.weight) + torch.cdist(x, step)
        return distances + (x * step) @ self.weight.t()


@torch.no_grad()
def test_constants_that_an_op_outside_uses_too() -> None:
    model, x = SharedWeight(), torch.randn(4, 6)
    lowered = lower(model, (x,))
    assert OURS in delegates(lowered)
    with Program(bytes(lowered.buffer)) as program:
        torch.testing.assert_close(program(x)[0], model(x), rtol=1e-3, atol=1e-3)


class Mixed(nn.Module):
    """Linear layers for XNNPACK, between a sort and a sum that it does not take."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.last = nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.sort(self.layer(x), dim=-1).values.cumsum(-1)
        return torch.sin(self.last(x)).cumsum(0)


@torch.no_grad()
def test_together_with_xnnpack() -> None:
    if "XnnpackBackend" not in backends():
        pytest.skip(
            "this process has no XnnpackBackend: libexecutorch_backend_xnnpack.so is missing"
        )
    x = torch.randn(3, 8)
    edge = to_edge_transform_and_lower(
        export(Mixed(), (x,)), partitioner=[XnnpackPartitioner(), CpuPartitioner()]
    )
    lowered = edge.to_executorch()
    assert set(delegates(lowered)) == {"XnnpackBackend", OURS}
    assert not lowered.executorch_program.execution_plan[0].operators
    with Program(bytes(lowered.buffer)) as program:
        torch.testing.assert_close(program(x)[0], Mixed()(x), rtol=1e-4, atol=1e-5)


class Nested(nn.Module):
    """A branch in a branch, with layers in and around them, and a state that a branch reads."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.other = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def inner(y: torch.Tensor) -> torch.Tensor:
            return torch.cond(y.max() > 2, lambda z: z.sin() * 2, lambda z: z.cos() * 3, (y,)) + 1

        x = self.layer(x)
        return torch.cond(x.sum() > 0, inner, lambda y: self.other(y), (x,)) * 2


class Loops(nn.Module):
    """A map and a scan, one after the other, with work of a delegate in and between them."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        def step(carry: torch.Tensor, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            new = torch.tanh(carry + row)
            return new, new * 2

        rows = map_op(lambda row, other: torch.relu(row * 2 + other), x * 3, y)
        last, all_rows = scan(step, y, rows, dim=0)
        return last + 1, all_rows * 3


class Until(nn.Module):
    """A loop whose length data decides."""

    def forward(self, x: torch.Tensor, count: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        start = torch.zeros((), dtype=torch.int64)
        return while_loop(lambda i, y: i < count, lambda i, y: (i + 1, y * 1.5 + 1), (start, x))


@torch.no_grad()
def test_nested_branches() -> None:
    x = torch.tensor([0.3, -0.2, 0.9, 0.4])
    lowered = lower(Nested(), (x,))
    assert set(delegates(lowered)) == {OURS}
    assert len(delegates(lowered)) >= 5
    ways = set()
    with Program(bytes(lowered.buffer)) as program:
        for factor in (-8.0, -1.0, 0.5, 1.0, 4.0, 20.0):
            hidden = Nested().layer(x * factor)
            ways.add((bool(hidden.sum() > 0), bool(hidden.sum() > 0 and hidden.max() > 2)))
            torch.testing.assert_close(program(x * factor)[0], Nested()(x * factor))
    assert len(ways) == 3


def test_map_and_scan() -> None:
    example = (torch.randn(5, 4), torch.randn(4))
    lowered = lower(Loops(), example)
    assert set(delegates(lowered)) == {OURS}
    with Program(bytes(lowered.buffer)) as program:
        for seed in range(2):
            generator = torch.Generator().manual_seed(seed)
            inputs = [torch.randn(x.shape, generator=generator) for x in example]
            torch.testing.assert_close(program(*inputs), Loops()(*inputs))


def test_while_loop_is_executorchs_limit(caplog: pytest.LogCaptureFixture) -> None:
    """ExecuTorch 1.5 emits cond, map and scan only; the warning says so before it fails."""
    exported = export(Until(), (torch.randn(4), torch.tensor(3)))
    with caplog.at_level(logging.WARNING, "aoti_plugins"):
        edge = to_edge_transform_and_lower(exported, partitioner=[CpuPartitioner()])
    assert "while_loop" in caplog.text
    assert "to_executorch() will fail" in caplog.text
    with pytest.raises(Exception, match="Unsupported control flow operator"):
        edge.to_executorch()
