"""Recurrent layers in programs for Apple GPUs, run over a stand-in for Metal."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from support import lower
from torch import nn

from aoti_plugins import MpsPartitioner
from aoti_plugins.runtime import Program

pytestmark = [
    pytest.mark.usefixtures("metal"),
    pytest.mark.filterwarnings("ignore:The tensor attributes"),
]

LAYERS: dict[str, Callable[[], nn.Module]] = {
    "lstm": lambda: nn.LSTM(6, 9, num_layers=2, bidirectional=True, batch_first=True),
    "gru": lambda: nn.GRU(6, 33, bidirectional=True),
    "tanh": lambda: nn.RNN(6, 5, bias=False),
    "relu": lambda: nn.RNN(6, 5, nonlinearity="relu", bidirectional=True),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float16, 1e-2), (torch.bfloat16, 6e-2)]
)
def test_as_eager(name: str, dtype: torch.dtype, tolerance: float) -> None:
    torch.manual_seed(0)
    layer, x = LAYERS[name]().eval().to(dtype), torch.randn(7, 5, 6).to(dtype)
    with torch.no_grad():
        outputs, last = layer.double()(x.double())
        program = lower(layer.to(dtype), (x,), partitioner=MpsPartitioner(target="host"))
    expected = [outputs, *(last if isinstance(last, tuple) else (last,))]
    with Program(bytes(program.buffer)) as loaded:
        for one, other in zip(loaded(x), expected, strict=True):
            torch.testing.assert_close(one.double(), other, rtol=tolerance, atol=tolerance)
