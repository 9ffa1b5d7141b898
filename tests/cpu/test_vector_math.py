"""What generated code computes by itself, of all the numbers that there are."""

from __future__ import annotations

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from torch import Tensor, nn
from torch.export import export

from aoti_plugins import CpuPartitioner
from aoti_plugins.runtime import Program


class Exponential(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.exp()


def numbers() -> Tensor:
    """Every 997th float32, from both zeros to what is none: 4.3 million."""
    bits = torch.arange(-(2**31), 2**31, 997, dtype=torch.int64)
    return bits.to(torch.int32).view(torch.float32)


def units_off(found: Tensor, expected: Tensor) -> Tensor:
    """How far float32 numbers are from float64 ones, in units in the last place."""
    exponent = torch.frexp(expected).exponent.clamp(min=-125)
    return (found.double() - expected).abs() / torch.pow(2.0, exponent.double() - 24)


@pytest.mark.parametrize("target", ["x86_64-v3", "x86_64-v4"])
def test_exponentials(target: str) -> None:
    if target == "x86_64-v4" and "AVX512" not in torch.backends.cpu.get_cpu_capability():
        pytest.skip("this machine has no AVX-512")
    x = numbers()
    exported = export(Exponential(), (x,))
    lowered = to_edge_transform_and_lower(exported, partitioner=[CpuPartitioner(target=target)])
    with Program(bytes(lowered.to_executorch().buffer)) as program:
        found = torch.as_tensor(program(x)[0]).clone()
    expected = x.double().exp()
    assert torch.equal(found.isnan(), x.isnan())
    assert (found[expected > torch.finfo(torch.float32).max] == torch.inf).all()
    finite = expected <= torch.finfo(torch.float32).max
    assert units_off(found[finite], expected[finite]).max() <= 1.03
