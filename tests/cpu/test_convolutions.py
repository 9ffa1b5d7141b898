"""Convolutions on the CPU: norms folded, limits taken in, equal to eager's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from each_model import Each
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export
from torch.nn.functional import pad

from aoti_plugins.cpu.passes.ended_convolutions import ended_convolutions
from aoti_plugins.cpu.passes.folded_norms import folded_norms

Called = Callable[[ExportedProgram], list[str]]
Run = Callable[..., list[Tensor]]

OURS = "aoti_plugins::clamped_convolution"


def normed(*layers: nn.Module) -> nn.Sequential:
    """Layers with norms that do something."""
    torch.manual_seed(0)
    model = nn.Sequential(*layers).eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            for value in (module.weight, module.bias, module.running_mean):
                if value is not None:
                    nn.init.normal_(value)
            nn.init.uniform_(module.running_var, 0.5, 2)
    return model


def aten(model: nn.Module, *inputs: Any) -> ExportedProgram:
    return export(model, inputs).run_decompositions({})


def convolutions() -> nn.Sequential:
    return normed(
        nn.Conv2d(3, 16, 3, 2, 1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU6(),
        nn.Conv2d(16, 16, (3, 5), 1, (1, 2), groups=16),
        nn.BatchNorm2d(16, affine=False),
        nn.ReLU(),
        nn.Conv2d(16, 24, 1),
        nn.Hardtanh(-0.5, 0.75),
        nn.Conv2d(24, 12, 3, dilation=2, groups=4),
    )


def test_norms_are_folded(called: Called) -> None:
    model, x = convolutions(), torch.randn(2, 3, 24, 20)
    program = aten(model, x)
    expected = program.module()(x)
    folded_norms(program)
    assert not [name for name in called(program) if "batch_norm" in name]
    torch.testing.assert_close(program.module()(x), expected)


def test_a_norm_of_what_has_no_batch_is_not_over_channels(run: Run) -> None:
    model, x = normed(nn.Conv1d(4, 8, 3, padding=1), nn.BatchNorm1d(8)), torch.randn(4, 8)
    (found,) = run(model, x)
    torch.testing.assert_close(found, model(x))


def test_limits_are_taken_in(called: Called) -> None:
    model, x = convolutions(), torch.randn(2, 3, 24, 20)
    program = aten(model, x)
    expected = program.module()(x)
    folded_norms(program)
    ended_convolutions(program)
    assert called(program) == ["aten::clone", OURS, OURS, OURS, OURS]
    torch.testing.assert_close(program.module()(x).contiguous(), expected)


def test_results_are_those_of_eager(run: Run) -> None:
    model, x = convolutions(), torch.randn(2, 3, 24, 20)
    (found,) = run(model, x)
    torch.testing.assert_close(found, model(x))


def test_any_batch(run: Run) -> None:
    model, x = convolutions(), torch.randn(3, 3, 24, 20)
    (found,) = run(model, x, dynamic_shapes=({0: Dim("batch", max=8)},))
    torch.testing.assert_close(found, model(x))


def activated() -> nn.Sequential:
    return normed(
        nn.Conv2d(3, 16, 3, 2, 1, bias=False),
        nn.BatchNorm2d(16),
        nn.Hardswish(),
        nn.Conv2d(16, 16, 3, 1, 1, groups=16),
        nn.SiLU(),
        nn.Conv2d(16, 12, 1),
        nn.Hardsigmoid(),
        nn.Conv2d(12, 12, 3, padding=1),
        nn.GELU(),
        nn.Conv2d(12, 12, 3, padding=1),
        nn.Sigmoid(),
    )


def test_activations_are_taken_in(called: Called, run: Run) -> None:
    model, x = activated(), torch.randn(2, 3, 24, 20)
    program = aten(model, x)
    expected = program.module()(x)
    folded_norms(program)
    ended_convolutions(program)
    ours = "aoti_plugins::activated_convolution"
    assert called(program) == ["aten::clone", ours, ours, ours, OURS, "aten::gelu", ours]
    torch.testing.assert_close(program.module()(x).contiguous(), expected)
    (found,) = run(model, x)
    torch.testing.assert_close(found, model(x))


class Residual(nn.Module):
    """A result that more than one reads, a norm that cannot be folded, and one weight twice."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Conv2d(8, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        nn.init.normal_(self.norm.running_mean)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        return (y.relu() + self.norm(y)) * self.first(y).clamp(max=1)


def test_what_others_read_stays(called: Called, run: Run) -> None:
    model, x = Residual().eval(), torch.randn(1, 8, 9, 7)
    program = aten(model, x)
    folded_norms(program)
    ended_convolutions(program)
    names = called(program)
    assert names.count(OURS) == 2
    assert "aten::relu" in names
    assert "aten::clamp" not in names
    assert [name for name in names if "batch_norm" in name]
    (found,) = run(model, x)
    torch.testing.assert_close(found, model(x))


class Padded(nn.Module):
    """Zeros around images, as TensorFlow has them, and what looks like them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.uneven = nn.Conv2d(3, 8, 3, stride=2)
        self.wide = nn.Conv2d(8, 8, (1, 3), padding=(0, 1), groups=8)
        self.ones = nn.Conv2d(8, 8, 3)
        self.mirrored = nn.Conv2d(8, 8, 3)
        self.far = nn.Conv2d(8, 8, 3, padding=1)
        self.cut = nn.Conv2d(8, 8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.uneven(pad(x, (0, 1, 0, 1))).relu()
        x = self.wide(pad(x, (1, 0)))
        x = self.ones(pad(x, (1, 1, 1, 1), value=1.0))
        x = self.mirrored(pad(x, (1, 1, 1, 1), mode="reflect"))
        x = self.far(pad(x, (2, 0, 0, 0)))
        return self.cut(pad(x, (-1, 2, 2, 2)))


def test_zeros_around_images_are_the_convolutions(called: Called, run: Run) -> None:
    model, x = Padded().eval(), torch.randn(2, 3, 16, 21)
    program = export(model, (x,))
    ended_convolutions(program)
    names = called(program)
    assert names.count(OURS) == 6
    # Ones, a mirror, more than the kernel reaches over, and less than the image.
    assert len([name for name in names if "pad" in name]) == 4
    torch.testing.assert_close(program.module()(x).contiguous(), model(x))
    (found,) = run(model, x)
    torch.testing.assert_close(found, model(x))


OTHERS: list[tuple[nn.Module, tuple[int, ...]]] = [
    (nn.Conv2d(4, 6, 3, padding="same"), (1, 4, 9, 9)),
    (nn.Conv2d(4, 6, 1, padding=2), (1, 4, 5, 5)),
    (nn.Conv2d(4, 6, 3), (4, 9, 9)),
    (nn.Conv1d(4, 6, 3), (2, 4, 9)),
    (nn.Conv3d(4, 6, 3), (1, 4, 5, 5, 5)),
    (nn.ConvTranspose2d(4, 6, 3, 2), (1, 4, 5, 5)),
    (nn.Conv2d(4, 6, 3).double(), (1, 4, 9, 9)),
    (nn.Conv2d(4, 6, 3).bfloat16(), (1, 4, 9, 9)),
]


def test_others_are_right(run: Run) -> None:
    inputs = [torch.randn(shape, dtype=model.bias.dtype) for model, shape in OTHERS]
    found = run(Each(model for model, _ in OTHERS), inputs)
    with torch.no_grad():
        for (model, _), x, result in zip(OTHERS, inputs, found, strict=True):
            torch.testing.assert_close(result, model(x))


def test_an_empty_batch(run: Run) -> None:
    model, x = nn.Conv2d(4, 6, 3), torch.randn(0, 4, 9, 9)
    (found,) = run(model, x)
    assert found.shape == (0, 6, 7, 7)


def test_not_a_number_passes_limits(run: Run) -> None:
    model, x = convolutions()[6:8], torch.randn(1, 16, 4, 4)
    x[0, 0, 0, 0] = float("nan")
    (found,) = run(model, x)
    assert found[0, :, 0, 0].isnan().all()
    assert not found[0, :, 1:].isnan().any()
