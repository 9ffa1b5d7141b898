"""Recurrent layers of CUDA programs, which are one call of the runtime each."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from support import lower
from torch import nn

from aoti_plugins import CudaPartitioner

pytestmark = pytest.mark.filterwarnings("ignore:The tensor attributes")


@pytest.mark.parametrize(("steps", "calls"), [(3, 0), (40, 2)])
def test_code_does_not_grow_with_the_steps(tmp_path: Path, steps: int, calls: int) -> None:
    layer = nn.GRU(6, 5, bidirectional=True).eval()
    partitioner = CudaPartitioner(target="h100", keep_sources=str(tmp_path))
    lower(layer, (torch.randn(steps, 2, 6),), partitioner=partitioner)
    (wrapper,) = tmp_path.glob("*/wrapper.cpp")
    text = wrapper.read_text()
    assert text.count("(aoti_torch_cuda_recurrent_layer(") == calls
    if calls:  # the products of all steps with the input, one in each direction
        assert text.count("(aoti_torch_cuda_mm_out(") + text.count("addmm_out(") <= calls
