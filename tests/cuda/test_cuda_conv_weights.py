"""Weights of convolutions are stored as the code reads them, and keep their values."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from support import lower
from torch import nn

from aoti_plugins import CudaPartitioner


class Convolutions(nn.Module):
    """A weight of its own, one that two convolutions share, and one that is also read otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.own = nn.Conv2d(3, 16, 3, padding=1)
        self.shared = nn.Conv2d(16, 16, 3, padding=1, bias=False)
        self.seen = nn.Conv2d(16, 16, 3, padding=1, bias=False)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Three convolutions in a row, and what else is done with a weight."""
        y = self.shared(torch.relu(self.shared(torch.relu(self.own(image)))))
        return self.seen(y), self.seen.weight * 2


def test_weights_are_stored_channels_last(
    tmp_path: Path, contents: Callable[[Path], tuple[Any, Any, Any]]
) -> None:
    torch.manual_seed(0)
    model = Convolutions().eval()
    path = tmp_path / "program.pte"
    partitioner = CudaPartitioner(target="h100", keep_sources=str(tmp_path))
    path.write_bytes(lower(model, (torch.randn(1, 3, 32, 32),), partitioner=partitioner).buffer)

    (payload,), blobs, _ = contents(path)
    found = {constant.fqn: constant for constant in payload.constants}
    for name, channels_last in (("own", True), ("shared", True), ("seen", False)):
        weight = getattr(model, name).weight.detach()
        layout = torch.channels_last if channels_last else torch.contiguous_format
        constant = found[f"{name}.weight"]
        assert constant.strides == weight.contiguous(memory_format=layout).stride()
        storage = bytearray(blobs[payload.storages[constant.storage].key])
        values = torch.frombuffer(storage, dtype=torch.float32)
        stored = values.as_strided(constant.sizes, constant.strides, constant.storage_offset)
        assert stored.equal(weight)

    wrapper = (tmp_path / "forward_0_h100" / "wrapper.cpp").read_text()
    read = re.findall(r"call_triton\w+\(([^)]*)\)", wrapper)
    weights = set(re.findall(r"\b(?:own|shared|seen)_weight\b", " ".join(read)))
    assert weights == {"seen_weight"}  # converted in each call
