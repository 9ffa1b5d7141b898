"""The sum leaves products of a few rows, and no others; results stay."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from aoti_plugins.cuda.passes.separate_bias import separate_bias


class Addmm(nn.Module):
    def __init__(self, **factors: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(256, 8))
        self.bias = nn.Parameter(torch.randn(8))
        self._factors = factors

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.addmm(self.bias, x, self.weight, **self._factors)


class InsideCond(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(256, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: self.linear(x), lambda x: x[:, :8] + 1, (x,))


def _ops(program: torch.export.ExportedProgram) -> list[str]:
    modules = [m for m in program.graph_module.modules() if isinstance(m, torch.fx.GraphModule)]
    return [str(n.target) for m in modules for n in m.graph.nodes if n.op == "call_function"]


@pytest.mark.parametrize(
    ("model", "shape", "separated"),
    [
        (nn.Linear(256, 8), (4, 256), True),
        (nn.Linear(256, 8), (2, 1, 256), True),
        (nn.Linear(256, 8), (256,), True),
        (nn.Linear(256, 8), (5, 256), False),
        (nn.Linear(32, 8), (1, 32), True),
        (nn.Linear(31, 8), (1, 31), False),
        (nn.Linear(256, 8, bias=False), (1, 256), False),
        (Addmm(), (1, 256), True),
        (Addmm(alpha=2), (1, 256), False),
        (InsideCond(), (2, 256), True),
    ],
    ids=str,
)
def test_separated(model: nn.Module, shape: tuple[int, ...], separated: bool) -> None:
    x = torch.randn(shape)
    program = torch.export.export(model, (x,))
    before = _ops(program)
    separate_bias(program)
    assert (_ops(program) != before) == separated
    torch.testing.assert_close(program.module()(x), model(x))


def test_dynamic_rows_stay() -> None:
    batch = torch.export.Dim("batch", min=1, max=9)
    program = torch.export.export(
        nn.Linear(256, 8), (torch.randn(3, 256),), dynamic_shapes=({0: batch},)
    )
    before = _ops(program)
    separate_bias(program)
    assert _ops(program) == before
