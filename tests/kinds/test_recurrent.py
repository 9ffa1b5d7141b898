"""Recurrent layers of more than a few steps, which are one call of the runtime each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support import lower
from torch import nn

from aoti_plugins.lowering.decompositions import recurrent_layer
from aoti_plugins.runtime import Program

pytestmark = pytest.mark.filterwarnings("ignore:The tensor attributes")

LAYERS = {
    "lstm": lambda: nn.LSTM(6, 5),
    "lstm, two layers both ways": lambda: nn.LSTM(
        6, 70, num_layers=2, bidirectional=True, batch_first=True
    ),
    "lstm without biases": lambda: nn.LSTM(6, 5, bias=False, bidirectional=True),
    "gru": lambda: nn.GRU(6, 5, num_layers=2, bidirectional=True, batch_first=True),
    "gru without biases": lambda: nn.GRU(6, 70, bias=False),
    "tanh": lambda: nn.RNN(6, 5, bidirectional=True),
    "relu": lambda: nn.RNN(6, 5, num_layers=2, nonlinearity="relu"),
}


def states_of(layer: nn.Module, x: torch.Tensor) -> Any:
    """First states that are not zero."""
    batch = x.size(0 if layer.batch_first else 1)
    count = layer.num_layers * (2 if layer.bidirectional else 1)
    states = [torch.randn(count, batch, layer.hidden_size).to(x.dtype) for _ in range(2)]
    return tuple(states) if isinstance(layer, nn.LSTM) else states[0]


@pytest.mark.parametrize("name", LAYERS)
def test_as_eager(name: str, check: Callable[..., None]) -> None:
    torch.manual_seed(0)
    layer = LAYERS[name]().eval()
    x = torch.randn(9, 7, 6)
    with torch.no_grad():
        check(layer, x, states_of(layer, x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_dtypes(dtype: torch.dtype, check: Callable[..., None]) -> None:
    torch.manual_seed(0)
    layer = nn.LSTM(6, 5, bidirectional=True).eval().to(dtype)
    x = torch.randn(9, 2, 6).to(dtype)
    tolerance = 1e-7 if dtype == torch.float64 else 1e-2
    with torch.no_grad():
        check(layer, x, states_of(layer, x), rtol=tolerance, atol=tolerance)


def test_any_number_of_sequences() -> None:
    torch.manual_seed(0)
    layer = nn.LSTM(6, 5, batch_first=True, bidirectional=True).eval()
    batch = torch.export.Dim("batch", max=8)
    program = lower(layer, (torch.randn(3, 9, 6),), dynamic_shapes=({0: batch},))
    with Program(bytes(program.buffer)) as loaded, torch.no_grad():
        for count in (0, 1, 3, 8):
            x = torch.randn(count, 9, 6)
            outputs, states = layer(x)
            for found, expected in zip(loaded(x), (outputs, *states), strict=True):
                torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_code_does_not_grow_with_the_steps(lower_whole: Callable[..., bytes]) -> None:
    torch.manual_seed(0)
    layer = nn.LSTM(6, 5).eval()
    few, many = (len(lower_whole(layer, (torch.randn(n, 2, 6),))) for n in (9, 90))
    assert many < 1.1 * few


def test_few_steps_are_code_of_their_own(tmp_path: Path) -> None:
    torch.manual_seed(0)
    for steps, calls in ((3, 0), (9, 2)):
        folder = tmp_path / str(steps)
        layer = nn.LSTM(6, 5, bidirectional=True).eval()
        lower(layer, (torch.randn(steps, 2, 6),), keep_sources=str(folder))
        (wrapper,) = folder.glob("*/wrapper.cpp")
        assert wrapper.read_text().count("(aoti_torch_cpu_recurrent_layer(") == calls


@pytest.mark.filterwarnings("ignore:LSTM with projections")
def test_projections_are_unrolled(check: Callable[..., None]) -> None:
    torch.manual_seed(0)
    with torch.no_grad():
        check(nn.LSTM(6, 5, proj_size=3).eval(), torch.randn(6, 2, 6))


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("reverse", [False, True])
def test_the_operator_in_eager(name: str, reverse: bool) -> None:
    torch.manual_seed(0)
    layer = LAYERS[name]().eval()
    kinds = recurrent_layer.Kind
    is_lstm, is_gru = isinstance(layer, nn.LSTM), isinstance(layer, nn.GRU)
    nonlinearity = getattr(layer, "nonlinearity", "")
    kind = kinds.LSTM if is_lstm else kinds.GRU if is_gru else kinds[nonlinearity.upper()]
    width = layer.hidden_size
    arguments = (
        torch.randn(7, 3, kind.gates * width),
        torch.randn(3, width),
        torch.randn(3, width) if is_lstm else None,
        torch.randn(kind.gates * width, width),
        torch.randn(kind.gates * width) if is_gru else None,
        int(kind),
        reverse,
    )
    torch.library.opcheck(
        torch.ops.aoti_plugins.recurrent_layer.default,
        arguments,
        test_utils=("test_schema", "test_faketensor"),
    )


def test_other_ops_do_not_get_the_kernel_of_a_layer_beside_them(
    check: Callable[..., None],
) -> None:
    """They are asked about together; its dtypes are not theirs."""

    class Beside(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.LSTM(4, 3)

        def forward(self, x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, ...]:
            positive = x > 0
            return self.layer(x)[0], positive * ~positive, n.remainder(5), n.max(-1)[0]

    check(Beside().eval(), torch.randn(5, 2, 4), torch.arange(12).view(3, 4))
