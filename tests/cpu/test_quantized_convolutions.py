"""Convolutions and linear layers of 8-bit numbers on the CPU, as PT2E quantises them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
    XNNPACKQuantizer,
    get_symmetric_quantization_config,
)
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from aoti_plugins.cpu.inductor import channels_last_inputs
from aoti_plugins.cpu.passes.quantized_convolutions import quantized_convolutions

Called = Callable[[ExportedProgram], list[str]]
Run = Callable[..., list[Tensor]]

OURS = "aoti_plugins::quantized_convolution"
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


class Layers(nn.Module):
    """Convolutions of each kind, a sum, and linear layers of rows and of a batch of rows."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Conv2d(3, 16, 3, 2, 1, bias=False)
        self.norm = nn.BatchNorm2d(16)
        self.second = nn.Conv2d(16, 16, (3, 5), 1, (1, 2))
        self.depthwise = nn.Conv2d(16, 16, 3, 1, 1, groups=16)
        self.pointwise = nn.Conv2d(16, 24, 1)
        self.rows = nn.Linear(24, 40)
        self.last = nn.Linear(40, 10, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.first(x)).relu()
        y = self.second(x).relu()
        z = self.pointwise((self.depthwise(y) + x).relu())
        rows = self.rows(z.flatten(2).transpose(1, 2)).relu()
        return self.last(rows.mean(1))


def quantised(x: Tensor, per_channel: bool, dynamic: bool = False) -> nn.Module:
    shapes = ({0: Dim("batch", min=1, max=8)},) if dynamic else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torchao's and ExecuTorch's, about themselves
        model = export(Layers().eval(), (x,), dynamic_shapes=shapes).module()
        config = get_symmetric_quantization_config(is_per_channel=per_channel)
        prepared = prepare_pt2e(model, XNNPACKQuantizer().set_global(config))
        torch.manual_seed(1)
        for _ in range(3):
            prepared(torch.randn_like(x))
        return convert_pt2e(prepared)


def is_close(found: Tensor, expected: Tensor) -> bool:
    """Whether numbers are those of eager but for one step of rounding."""
    step = (expected.unique().diff()).min()
    return bool((found - expected).abs().max() <= 1.01 * step)


@pytest.mark.parametrize("per_channel", [True, False])
def test_all_layers_are_replaced(called: Called, per_channel: bool) -> None:
    x = torch.randn(2, 3, 20, 16)
    program = export(quantised(x, per_channel), (x,))
    expected = program.module()(x)
    quantized_convolutions(program)
    names = called(program)
    assert names.count(OURS) == 6
    assert not {"aten::conv2d", "aten::linear", "aten::convolution"} & set(names)
    assert "quantized_decomposed::dequantize_per_channel" not in names
    assert is_close(program.module()(x), expected)


def test_results_are_those_of_eager(run: Run) -> None:
    x = torch.randn(2, 3, 20, 16)
    model = quantised(x, per_channel=True)
    (found,) = run(model, x)
    assert is_close(found, model(x))


def test_numbers_are_written_as_convolutions_read_them(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    strides = []
    original = channels_last_inputs._channels_last

    def noted(x: Any) -> Any:
        found = original(x)
        strides.append([int(one) for one in found.get_stride()])
        return found

    monkeypatch.setattr(channels_last_inputs, "_channels_last", noted)
    x = torch.randn(2, 3, 20, 16)
    run(quantised(x, per_channel=True), x)
    images = [one for one in strides if len(one) == 4 and one[2] != 1]
    assert images
    assert all(one[1] == 1 for one in images)


def test_any_batch(run: Run) -> None:
    x = torch.randn(3, 3, 20, 16)
    model = quantised(x, per_channel=False, dynamic=True)
    (found,) = run(model, x, dynamic_shapes=({0: Dim("batch", min=1, max=8)},))
    assert is_close(found, model(x))
