"""Weights of few bits in programs for Apple GPUs, run over a stand-in for Metal."""

from __future__ import annotations

import pytest
import torch
from exportable_weights import FORMS, OneProduct, Tied, values_of
from small_tables import TABLES
from small_tables import values_of as values_of_table
from support import lower, weights_nbytes

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


def test_rows_of_what_a_product_reads() -> None:
    torch.manual_seed(4)
    weight, x = TABLES["int4, groups of 128, zeros"](64, 256, torch.bfloat16), torch.randn(2, 256)
    model, numbers = Tied(weight).eval(), torch.tensor([[63, 0], [5, 5]])
    inputs = (numbers, x.bfloat16())
    lowered = lower(model, inputs, partitioner=MpsPartitioner(target="host"))
    assert weights_nbytes(lowered.buffer) == 64 * 256 * (4 + 32 / 128) / 8
    with Program(bytes(lowered.buffer)) as program:
        rows, products = program(*inputs)
    torch.testing.assert_close(rows.double(), values_of_table(weight)[numbers], rtol=2**-8, atol=0)
    torch.testing.assert_close(products, model(*inputs)[1], rtol=0.02, atol=0.02)
