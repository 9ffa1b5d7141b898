"""The op in a model: its kernel linked into the program, and as a library of its own."""

from __future__ import annotations

import pytest
import torch
from acme_native.hooks import aoti_fallback_kernels
from acme_native.op import scaled_cube
from executorch.exir import to_edge_transform_and_lower
from torch import nn

from aoti_plugins import CpuPartitioner, CudaPartitioner, Program


class Model(nn.Module):
    def forward(self, x):
        return scaled_cube(x + 1, 2.0).relu()


X = torch.randn(3, 50)


def lower(partitioner):
    exported = torch.export.export(Model(), (X,))
    program = to_edge_transform_and_lower(exported, partitioner=[partitioner]).to_executorch()
    (plan,) = program.executorch_program.execution_plan
    assert len(plan.delegates) == 1
    assert not plan.operators, "something was left outside the delegate"
    return bytes(program.buffer)


@pytest.mark.parametrize("form", ["linked", "library"])
def test_on_the_cpu(form, monkeypatch):
    monkeypatch.setenv("ACME_NATIVE_KERNELS", form)
    program = lower(CpuPartitioner())
    assert (b"libacme_native.so.1" in program) == (form == "library")
    with Program(program) as loaded:
        torch.testing.assert_close(loaded(X)[0], Model()(X))


@pytest.mark.parametrize("form", ["linked", "library"])
def test_lowered_for_a_gpu(form, monkeypatch):
    monkeypatch.setenv("ACME_NATIVE_KERNELS", form)
    if not list(aoti_fallback_kernels("cuda")):
        pytest.skip("the package was built without nvcc")
    program = lower(CudaPartitioner(target="h100"))
    assert (b"libacme_native_cuda.so.1" in program) == (form == "library")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch.cuda.is_available() is false")
@pytest.mark.parametrize("form", ["linked", "library"])
def test_on_the_gpu(form, monkeypatch):
    monkeypatch.setenv("ACME_NATIVE_KERNELS", form)
    with Program(lower(CudaPartitioner())) as loaded:
        torch.testing.assert_close(loaded(X)[0].cpu(), Model()(X))
