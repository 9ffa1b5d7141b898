"""Recurrent layers on a GPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support import lower
from torch import Tensor, nn

from aoti_plugins import CudaPartitioner
from aoti_plugins.runtime import Program

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:The tensor attributes")]


class Layers(nn.Module):
    """One of each kind, some in both directions and several behind each other."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            [
                nn.LSTM(6, 70, num_layers=2, bidirectional=True, batch_first=True),
                nn.LSTM(6, 8, bias=False, batch_first=True),
                nn.GRU(6, 24, bidirectional=True, batch_first=True),
                nn.RNN(6, 5, batch_first=True),
                nn.RNN(6, 5, nonlinearity="relu", bidirectional=True, batch_first=True),
            ]
        )

    def forward(self, x: Tensor) -> list[Any]:
        """Outputs and last states of ``x [sequences, steps, 6]``."""
        found: list[Any] = []
        for layer in self.layers:
            outputs, last = layer(x)
            found += [outputs, *(last if isinstance(last, tuple) else (last,))]
        return found


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [
        (torch.float32, 1e-5),
        (torch.float64, 1e-9),
        (torch.float16, 1e-2),
        (torch.bfloat16, 6e-2),
    ],
)
@pytest.mark.parametrize("graphs", [False, True])
def test_as_eager(dtype: torch.dtype, tolerance: float, graphs: bool) -> None:
    torch.manual_seed(0)
    model, x = Layers().eval().to(dtype), torch.randn(3, 17, 6).to(dtype)
    with torch.no_grad():
        expected = model.double()(x.double())
        program = lower(model.to(dtype), (x,), partitioner=CudaPartitioner())
        options = {"AotiCudaBackend": {"cuda_graphs": graphs}}
        with Program(bytes(program.buffer)) as loaded:
            method = loaded.method(options=options)
            for _ in range(3):
                for one, other in zip(method(x.cuda()), expected, strict=True):
                    torch.testing.assert_close(
                        one.cpu().double(), other, rtol=tolerance, atol=tolerance
                    )
