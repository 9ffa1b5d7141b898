"""Fourier transforms of programs for Apple GPUs: the kernels take the last dims, programs any."""

from __future__ import annotations

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from torch import nn

from aoti_plugins import MpsPartitioner
from aoti_plugins.runtime import Program

pytestmark = pytest.mark.usefixtures("metal")


class Transforms(nn.Module):
    """Dims that are first, last, several, in another order and too many for one kernel."""

    def forward(self, x: torch.Tensor, pairs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        complex_ones = torch.view_as_complex(pairs)
        return (
            torch.view_as_real(torch.fft.rfft(x, dim=1)),
            torch.view_as_real(torch.fft.rfftn(x)),
            torch.fft.irfft(torch.fft.rfft(x, dim=1), n=6, dim=1),
            torch.view_as_real(torch.fft.fft2(complex_ones, dim=(0, 1))),
            torch.view_as_real(torch.fft.ifftn(complex_ones)),
            torch.fft.irfft2(complex_ones, s=(3, 7), dim=(2, 1)),
        )


def test_equal_to_eager() -> None:
    inputs = (torch.randn(4, 6, 8), torch.randn(2, 4, 5, 3, 2))
    model = Transforms()
    edge = to_edge_transform_and_lower(
        torch.export.export(model, inputs),
        partitioner=[MpsPartitioner(target="host")],
    )
    with Program(bytes(edge.to_executorch().buffer)) as loaded:
        found = [one.clone() for one in loaded(*inputs)]
    for one, expected in zip(found, model(*inputs), strict=True):
        torch.testing.assert_close(one, expected, rtol=1e-4, atol=1e-4)
