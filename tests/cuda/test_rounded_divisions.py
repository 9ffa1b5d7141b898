"""How generated kernels for NVIDIA GPUs divide: means as eager does, elements approximately."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from support import lower
from torch import Tensor, nn

from aoti_plugins import CudaPartitioner

_DIVISION = re.compile(r"tmp\d+ = \(?tmp\d+ / tmp\d+\)?")
_ROUNDED = "triton.language.div_rn"


class Norm(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.layer_norm(x, x.shape[-1:])


class Mean(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(-1, keepdim=True)


class WholeMean(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean()


class Softmax(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.softmax(-1)


class Quotient(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x / (x.square() + 1)


def source(model: nn.Module, sizes: tuple[int, ...], folder: Path) -> str:
    partitioner = CudaPartitioner(target="h100", keep_sources=str(folder))
    lower(model, (torch.randn(sizes),), partitioner=partitioner)
    (wrapper,) = folder.glob("*/wrapper.cpp")
    return wrapper.read_text()


@pytest.mark.parametrize(
    ("model", "sizes"),
    [
        (Norm(), (1, 7)),
        (Norm(), (64, 6)),
        (Norm(), (64, 100)),
        (Norm(), (4, 5000)),
        (Mean(), (1, 7)),
        (Mean(), (64, 3)),
        (Mean(), (3, 5, 70)),
        (WholeMean(), (1000, 1000)),
    ],
)
def test_means_are_divided_correctly(
    model: nn.Module, sizes: tuple[int, ...], tmp_path: Path
) -> None:
    found = source(model, sizes, tmp_path)
    assert _ROUNDED in found
    assert not _DIVISION.search(found)


@pytest.mark.parametrize("model", [Softmax(), Quotient()])
def test_elements_are_divided_fast(model: nn.Module, tmp_path: Path) -> None:
    found = source(model, (64, 100), tmp_path)
    assert _DIVISION.search(found)
    assert _ROUNDED not in found
