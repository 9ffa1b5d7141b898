"""The op in a model: lowered for an H100 without one, and run on the CPU and on a GPU."""

from __future__ import annotations

import pytest
import torch
from acme_triton.op import gated
from executorch.exir import to_edge_transform_and_lower
from torch import nn

from aoti_plugins import CpuPartitioner, CudaPartitioner, Program


class Model(nn.Module):
    def forward(self, x, gate):
        return gated(x + 1, gate).relu()


INPUTS = (torch.randn(5, 700), torch.randn(5, 700))


def lower(partitioner):
    rows = torch.export.Dim("rows", min=2, max=64)
    exported = torch.export.export(Model(), INPUTS, dynamic_shapes=({0: rows}, {0: rows}))
    program = to_edge_transform_and_lower(exported, partitioner=[partitioner]).to_executorch()
    (plan,) = program.executorch_program.execution_plan
    assert len(plan.delegates) == 1
    assert not plan.operators, "something was left outside the delegate"
    return bytes(program.buffer)


def test_the_kernel_is_in_the_program():
    program = lower(CudaPartitioner(target="h100"))
    assert b"gated_kernel" in program


def test_on_the_cpu():
    with Program(lower(CpuPartitioner())) as loaded:
        torch.testing.assert_close(loaded(*INPUTS)[0], Model()(*INPUTS))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch.cuda.is_available() is false")
def test_on_the_gpu():
    with Program(lower(CudaPartitioner())) as loaded:
        torch.testing.assert_close(loaded(*INPUTS)[0].cpu(), Model()(*INPUTS))
