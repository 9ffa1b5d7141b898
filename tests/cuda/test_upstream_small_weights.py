"""Layers with weights of ExecuTorch's own CUDA backend are lowered by ours, too, without a GPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support import lower

from aoti_plugins import CudaPartitioner


@pytest.mark.parametrize("form", ["int4", "int5", "int6", "int8"])
def test_calls_the_runtimes_kernel(
    form: str, contents: Callable[[Path], Any], tmp_path: Path
) -> None:
    from upstream_small_weights import K, small_weight

    weight = small_weight(form)
    inputs = (torch.randn(1, K, dtype=torch.bfloat16),)
    program = lower(weight.layer, inputs, partitioner=CudaPartitioner(target="h100"))
    path = tmp_path / "model.pte"
    path.write_bytes(program.buffer)
    (payload,), _, outside = contents(path)
    assert outside == []
    (target,) = payload.targets
    assert f"aoti_torch_cuda_{form}_plain_mm" in target.symbols
