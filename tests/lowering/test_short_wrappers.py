"""What wrappers of this version of PyTorch say of constants and layouts is short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from support import lower
from torch import nn

from aoti_plugins import CpuPartitioner, CudaPartitioner
from aoti_plugins.lowering.inductor.versions import torch_version

PARTITIONERS = [(CpuPartitioner, "x86_64-v3"), (CudaPartitioner, "h100")]


class Sorted(nn.Module):
    """A linear layer and a sort, which is a call of a shim."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sort(self.linear(x)).values


@pytest.mark.parametrize(("partitioner", "target"), PARTITIONERS)
def test_no_lists_are_left(
    partitioner: type[CpuPartitioner | CudaPartitioner], target: str, tmp_path: Path
) -> None:
    """Nothing would break with a version that writes them differently, but it would be slow."""
    options = {"target": target, "keep_sources": str(tmp_path)}
    lower(Sorted().eval(), (torch.ones(3, 4),), partitioner=partitioner(**options))
    (path,) = tmp_path.glob("*/wrapper.cpp")
    wrapper = path.read_text()
    assert re.search(r"describe_constant\(constants_info_\[\d+\], \"linear_weight\"", wrapper)
    assert not re.search(r"constants_info_\[\d+\]\.(name|shape) =", wrapper)
    assert torch_version() < (2, 13) or re.search(r"::aotip::check_\w*layout\(", wrapper)
    assert "assert_size_stride(" not in wrapper
    assert "constants_->at(" not in wrapper
