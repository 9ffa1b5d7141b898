"""Weights of few bits in programs for Apple GPUs, run over a stand-in for Metal."""

from __future__ import annotations

import pytest
import torch
from exportable_weights import FORMS, OneProduct, values_of
from support import lower

from aoti_plugins import MpsPartitioner
from aoti_plugins.runtime import Program

pytestmark = pytest.mark.usefixtures("metal")


@pytest.mark.parametrize("name", ["int4", "q4_k", "q6_k", "nvfp4", "mxfp8"])
def test_weights_of_executorch(name: str) -> None:
    torch.manual_seed(3)
    weight, x = FORMS[name](32, 256, torch.bfloat16), torch.randn(2, 256).bfloat16()
    lowered = lower(OneProduct(weight).eval(), (x,), partitioner=MpsPartitioner(target="host"))
    with Program(bytes(lowered.buffer)) as program:
        (found,) = program(x)
    exact = values_of(weight)
    usual = (x @ exact.bfloat16().t()).double()
    expected = x.double() @ exact.t()
    assert (found.double() - expected).norm() <= 1.2 * (usual - expected).norm()
