"""Products with weights in blocks of GGUF files on the CPU: recognised, exact, not copied."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from each_model import Each
from executorch.exir._serialize._program import deserialize_pte_binary
from exportable_weights import OneProduct, Tied, WithBias, gguf_of, values_of
from support import lower
from torch import Tensor
from torch.export import Dim, ExportedProgram, export

from aoti_plugins import CpuPartitioner
from aoti_plugins.lowering.passes.gguf_linears import gguf_linears
from aoti_plugins.lowering.small_weights import gguf
from aoti_plugins.runtime import Program

Called = Callable[[ExportedProgram], list[str]]
Run = Callable[..., list[Tensor]]

N, K = 40, 512
OURS = "aoti_plugins::gguf_linear"


@pytest.mark.parametrize("everything", [False, True])
@pytest.mark.parametrize("kind", gguf.NBYTES)
def test_products_are_replaced(called: Called, kind: str, everything: bool) -> None:
    torch.manual_seed(0)
    model, x = WithBias(gguf_of(N, K, torch.float32, kind)), torch.randn(3, K)
    program = export(model, (x,)).run_decompositions(None if everything else {})
    expected = program.module()(x)
    gguf_linears(program)
    assert called(program) == [OURS]
    torch.testing.assert_close(program.module()(x), expected, rtol=1e-4, atol=1e-4)


def test_other_products_stay(called: Called) -> None:
    weight, x = gguf_of(N, K, torch.float64, "q4_k"), torch.randn(3, K, dtype=torch.float64)
    program = export(OneProduct(weight), (x,)).run_decompositions({})
    before = called(program)
    gguf_linears(program)
    assert called(program) == before


def test_results_are_those_of_dequantised_weights(run: Run) -> None:
    torch.manual_seed(1)
    dtypes = (torch.float32, torch.bfloat16, torch.float16)
    cases = [(kind, dtype, rows) for kind in gguf.NBYTES for dtype in dtypes for rows in (1, 5, 40)]
    weights = [gguf_of(N, K, dtype, kind) for kind, dtype, _ in cases]
    inputs = [torch.randn(rows, K).to(dtype) for _, dtype, rows in cases]
    found = run(Each(map(OneProduct, weights)), inputs)
    for (*_, dtype, _), weight, x, result in zip(cases, weights, inputs, found, strict=True):
        exact = values_of(weight)
        expected = x.double() @ exact.t()
        error = (result.double() - expected).norm()
        if dtype == torch.float32:
            assert error <= 1e-5 * expected.norm()
        else:
            assert error <= 1.2 * ((x @ exact.to(dtype).t()).double() - expected).norm()


def test_any_number_of_rows(run: Run) -> None:
    torch.manual_seed(2)
    weight, x = gguf_of(N, K, torch.float32, "q6_k"), torch.randn(19, K)
    (found,) = run(OneProduct(weight), x, dynamic_shapes=({0: Dim("rows", max=64)},))
    torch.testing.assert_close(
        found.double(), x.double() @ values_of(weight).t(), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("kind", gguf.NBYTES)
def test_an_embedding_reads_the_blocks_of_the_head(kind: str) -> None:
    torch.manual_seed(3)
    weight, x = gguf_of(N, K, torch.bfloat16, kind), torch.randn(1, K).bfloat16()
    numbers = torch.tensor([[5, 0], [39, 5]])
    lowered = lower(Tied(weight).eval(), (numbers, x), partitioner=CpuPartitioner())
    named = deserialize_pte_binary(lowered.buffer).named_data
    keys = [key for key in named.pte_data if key.endswith("_weights_blob")]
    nbytes = [len(named.buffers[named.pte_data[key].buffer_index]) for key in keys]
    assert max(nbytes) == N * K // gguf.BLOCK * gguf.NBYTES[kind]
    assert sum(nbytes) <= max(nbytes) + 64 * len(nbytes)
    with Program(bytes(lowered.buffer)) as program:
        rows, product = program(numbers, x)
    exact = values_of(weight)
    assert torch.equal(rows, exact.to(torch.bfloat16)[numbers])
    torch.testing.assert_close(product.double(), x.double() @ exact.t(), rtol=2**-7, atol=1e-2)
