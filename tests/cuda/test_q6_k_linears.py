"""Products and embeddings with weights of GGUF's ``q6_k`` on NVIDIA GPUs, lowered without one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.backends.cuda.dp4a_planar_int6_tensor import pack_int6
from exportable_weights import OneProduct, Tied, WithBias, gguf_of, values_of
from small_tables import Plain
from support import lower
from torch import nn
from torch.export import ExportedProgram, export

from aoti_plugins import CudaPartitioner
from aoti_plugins.cuda.passes.q6_k_linears import q6_k_linears
from aoti_plugins.cuda.small_weights import planes
from aoti_plugins.lowering.passes.gathered_rows import gathered_rows
from aoti_plugins.lowering.small_weights.gguf import six_bits

N, K = 48, 512
PRODUCT, ROWS = "aoti_plugins.q6_k_linear.default", "aoti_plugins.rows_of_q6_k.default"
NUMBERS = torch.tensor([[47, 0], [5, 5]])


def targets(program: ExportedProgram) -> list[str]:
    return [str(node.target) for node in program.graph.nodes if node.op == "call_function"]


def test_planes_are_those_of_executorchs_kernels() -> None:
    codes = torch.randint(-32, 32, (5, 96), dtype=torch.int32)
    for found, expected in zip(planes.pack(codes), pack_int6(codes), strict=True):
        assert torch.equal(found, expected)
    assert torch.equal(planes.unpack(*planes.pack(codes)), codes)


def test_values_are_those_of_the_blocks() -> None:
    weight = gguf_of(N, K, torch.bfloat16, "q6_k")
    codes, scale, step = six_bits(weight.raw)
    found = planes.values(*planes.pack(codes), scale.to(torch.int8), step.to(torch.float16))
    assert torch.equal(found.double(), values_of(weight))


@pytest.mark.parametrize("everything", [False, True])
@pytest.mark.parametrize("model_of", [OneProduct, WithBias])
def test_products_are_replaced(model_of: Callable[[Any], nn.Module], everything: bool) -> None:
    torch.manual_seed(0)
    weight, x = gguf_of(N, K, torch.bfloat16, "q6_k"), torch.randn(2, 3, K).bfloat16()
    model = model_of(weight)
    program = export(model, (x,)).run_decompositions(None if everything else {})
    q6_k_linears(program)
    found = targets(program)
    assert PRODUCT in found
    assert not any(
        "dequantize" in name or "linear.default" in name for name in found if name != PRODUCT
    )
    bias = model.bias.double() if isinstance(model, WithBias) else 0.0
    exact = x.double() @ values_of(weight).t() + bias
    usual = ((x @ values_of(weight).bfloat16().t()) + bias).double()
    with torch.no_grad():
        error = (program.module()(x).double() - exact).norm()
    assert error <= 1.2 * (usual - exact).norm()


def test_an_embedding_reads_what_the_head_reads() -> None:
    torch.manual_seed(1)
    weight, x = gguf_of(N, K, torch.bfloat16, "q6_k"), torch.randn(1, K).bfloat16()
    program = export(Tied(weight), (NUMBERS, x)).run_decompositions({})
    for one in (gathered_rows, q6_k_linears):
        one(program)
    assert targets(program) == [ROWS, PRODUCT]
    placed = [node for node in program.graph.nodes if node.op == "placeholder" and node.users]
    assert len(placed) == 4 + 2
    plain, values = Plain(program), values_of(weight)
    rows, product = plain.run(NUMBERS, x)
    assert torch.equal(rows, values.bfloat16()[NUMBERS])
    torch.testing.assert_close(product.double(), x.double() @ values.t(), rtol=2**-7, atol=1e-2)
    with pytest.raises(IndexError, match="out of bounds"):
        plain.run(torch.full_like(NUMBERS, N), x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_other_dtypes_are_left_to_inductor(dtype: torch.dtype) -> None:
    weight, x = gguf_of(N, K, dtype, "q6_k"), torch.randn(3, K).to(dtype)
    program = export(OneProduct(weight), (x,)).run_decompositions({})
    before = targets(program)
    q6_k_linears(program)
    assert targets(program) == before


def test_a_program_holds_the_bits_of_the_file(
    tmp_path: Path, contents: Callable[[Path], Any]
) -> None:
    weight = gguf_of(N, K, torch.bfloat16, "q6_k")
    inputs = NUMBERS, torch.randn(1, 1, K).bfloat16()
    path = tmp_path / "model.pte"
    path.write_bytes(
        lower(Tied(weight).eval(), inputs, partitioner=CudaPartitioner(target="h100")).buffer
    )
    (payload,), blobs, outside = contents(path)
    assert outside == []
    assert "aoti_torch_cuda_q6_k_linear" in payload.targets[0].symbols
    weights = sum(len(data) for key, data in blobs.items() if key.endswith("_weights_blob"))
    assert weights <= N * K * 210 // 256 + 64 * len(blobs)
