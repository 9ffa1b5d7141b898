"""A program for an NVIDIA GPU says what its kernels are from."""

from __future__ import annotations

from pathlib import Path

import torch
from profiling_support import Block, check_kernels
from support import lower

from aoti_plugins import CudaPartitioner
from aoti_plugins.cli._pte import inspect_program

X = torch.ones(3, 8)


def test_a_program_for_cuda_names_its_kernels(tmp_path: Path) -> None:
    path = tmp_path / "block.pte"
    path.write_bytes(lower(Block().eval(), (X,), partitioner=CudaPartitioner(target="h100")).buffer)
    (delegate,) = inspect_program(path)["methods"][0]["delegates"]
    kernels = delegate["payload"]["targets"][0]["kernels"]
    check_kernels(kernels)
    names = [one["name"].partition(":")[0] for one in kernels]
    assert any(name.startswith("triton_") for name in names)
    assert "aoti_torch_cuda_convolution" in names
