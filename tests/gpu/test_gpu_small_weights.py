"""Products with weights of 4 and 8 bits on a GPU: as exact as those of 16 bits."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from executorch.extension.llm.export.mx import ExportableMXConfig
from executorch.extension.llm.export.nvfp4 import ExportableNVFP4Config
from exportable_weights import OneProduct, Tied, gguf_of
from exportable_weights import values_of as values_of_blocks
from small_tables import TABLES
from small_tables import values_of as values_of_table
from small_weight_cases import CONFIGS, WIDTH, dequantised, quantised, values_of
from torch import Tensor
from torch.export import Dim, export
from torchao.quantization import Float8WeightOnlyConfig, quantize_

from aoti_plugins import CudaPartitioner
from aoti_plugins.runtime import Program

pytestmark = pytest.mark.gpu

FLOATS = {
    "float8": Float8WeightOnlyConfig,
    "float8, e5m2": lambda: Float8WeightOnlyConfig(weight_dtype=torch.float8_e5m2),
    "mxfp8": ExportableMXConfig,
    "nvfp4": ExportableNVFP4Config,
}

MOST_ROWS = 64
ROWS = (1, 2, 8, 9, 16, 17, MOST_ROWS)
MOST_FLOAT_ROWS = 600


@pytest.mark.parametrize("graphs", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", CONFIGS)
def test_errors_are_those_of_16_bits(name: str, dtype: torch.dtype, graphs: bool) -> None:
    model = quantised(name, dtype)
    exact = dequantised(model).cuda()
    plain = copy.deepcopy(exact).to(dtype)
    rows = Dim("rows", min=1, max=MOST_ROWS)
    exported = export(model, (torch.randn(8, WIDTH).to(dtype),), dynamic_shapes=({0: rows},))
    edge = to_edge_transform_and_lower(exported, partitioner=[CudaPartitioner()])
    options = {"AotiCudaBackend": {"cuda_graphs": graphs}}
    with Program(bytes(edge.to_executorch().buffer)) as program:
        method = program.method(options=options)
        for count in ROWS:
            x = torch.randn(count, WIDTH, device="cuda").to(dtype)
            with torch.no_grad():
                expected, usual = exact(x.double()), plain(x).double()
            for _ in range(3 if graphs else 1):
                (found,) = method(x)
                error = (found.double() - expected).norm()
                assert error <= 1.2 * (usual - expected).norm(), (count, error)


def layer_of_floats(name: str, dtype: torch.dtype) -> torch.nn.Linear:
    torch.manual_seed(3)
    model = torch.nn.Linear(2080, 272, dtype=dtype).eval().requires_grad_(False)
    quantize_(model, FLOATS[name]())
    return model


def check_floats(model: torch.nn.Linear, method: Any, x: Tensor, repeats: int) -> None:
    values = model.weight.dequantize(torch.float32).double()
    expected = x.double() @ values.t() + model.bias.double()
    usual = torch.nn.functional.linear(x, values.to(x.dtype), model.bias).double()
    for _ in range(repeats):
        (found,) = method(x.cuda())
        error = (found.double().cpu() - expected).norm()
        assert error <= 1.2 * (usual - expected).norm(), len(x)


@pytest.mark.parametrize("graphs", [False, True])
@pytest.mark.parametrize("name", FLOATS)
def test_errors_of_floats_are_those_of_16_bits(name: str, graphs: bool) -> None:
    model = layer_of_floats(name, torch.bfloat16)
    rows = Dim("rows", min=1, max=MOST_FLOAT_ROWS)
    exported = export(model, (torch.randn(8, 2080).bfloat16(),), dynamic_shapes=({0: rows},))
    edge = to_edge_transform_and_lower(exported, partitioner=[CudaPartitioner()])
    options = {"AotiCudaBackend": {"cuda_graphs": graphs}}
    with Program(bytes(edge.to_executorch().buffer)) as program:
        method = program.method(options=options)
        for count in (*ROWS, 130, MOST_FLOAT_ROWS):
            x = torch.randn(count, 2080).bfloat16()
            check_floats(model, method, x, 3 if graphs else 1)


@pytest.mark.parametrize("graphs", [False, True])
@pytest.mark.parametrize("name", ["float8", "mxfp8"])  # NVFP4 is made of no such weights
def test_errors_of_a_row_of_float16_are_those_of_16_bits(name: str, graphs: bool) -> None:
    model = layer_of_floats(name, torch.float16)
    x = torch.randn(1, 2080).half()
    edge = to_edge_transform_and_lower(export(model, (x,)), partitioner=[CudaPartitioner()])
    program = bytes(edge.to_executorch().buffer)
    assert b"one_row" in program
    options = {"AotiCudaBackend": {"cuda_graphs": graphs}}
    method = Program(program).method(options=options)
    check_floats(model, method, x, 3 if graphs else 1)


@pytest.mark.parametrize("name", ["int4, groups of 128, zeros", "int4, rows", "int8, rows"])
def test_errors_of_many_rows_are_those_of_16_bits(name: str) -> None:
    """Tiles of 64, 128 and 256 rows, and sums that blocks of a cluster share."""
    torch.manual_seed(2)
    model = torch.nn.Linear(4096, 4096, dtype=torch.bfloat16).eval()
    quantize_(model, CONFIGS[name]())
    exact = torch.nn.Linear(4096, 4096, dtype=torch.float64, device="cuda")
    with torch.no_grad():
        exact.weight.copy_(values_of(model.weight))
        exact.bias.copy_(model.bias)
    plain = copy.deepcopy(exact).bfloat16()
    rows = Dim("rows", min=1, max=2000)
    exported = export(model, (torch.randn(8, 4096).bfloat16(),), dynamic_shapes=({0: rows},))
    edge = to_edge_transform_and_lower(exported, partitioner=[CudaPartitioner()])
    with Program(bytes(edge.to_executorch().buffer)) as program:
        for count in (40, 130, 256, 500, 2000):
            x = torch.randn(count, 4096, device="cuda").bfloat16()
            with torch.no_grad():
                expected, usual = exact(x.double()), plain(x).double()
            (found,) = program(x)
            error = (found.double() - expected).norm()
            assert error <= 1.2 * (usual - expected).norm(), (count, error)


@pytest.mark.parametrize("name", TABLES)
def test_rows_are_those_of_the_head(name: str) -> None:
    """Of an embedding, whether the head has tiles or not."""
    torch.manual_seed(5)
    weight, rows = TABLES[name](MOST_ROWS, 512, torch.bfloat16), Dim("rows", max=MOST_ROWS)
    values, x = values_of_table(weight), torch.randn(2, 512).bfloat16()
    exported = export(Tied(weight).eval(), (torch.arange(3), x), dynamic_shapes=({0: rows}, None))
    edge = to_edge_transform_and_lower(exported, partitioner=[CudaPartitioner()])
    with Program(bytes(edge.to_executorch().buffer)) as program:
        for numbers in (torch.tensor([MOST_ROWS - 1, 0, 9, 9]), torch.tensor([8])):
            found, products = program(numbers.cuda(), x.cuda())
            torch.testing.assert_close(found.double().cpu(), values[numbers], rtol=2**-8, atol=1e-6)
            torch.testing.assert_close(
                products.double().cpu(), x.double() @ values.t(), rtol=0.02, atol=0.1
            )


@pytest.mark.parametrize("graphs", [False, True])
@pytest.mark.parametrize("kind", ["q4_k", "q5_k", "q6_k"])
def test_errors_of_blocks_of_gguf_files(kind: str, graphs: bool) -> None:
    torch.manual_seed(6)
    weight, rows = gguf_of(264, 2048, torch.bfloat16, kind), Dim("rows", min=1, max=MOST_ROWS)
    x = torch.randn(8, 2048).bfloat16()
    exported = export(OneProduct(weight).eval(), (x,), dynamic_shapes=({0: rows},))
    edge = to_edge_transform_and_lower(exported, partitioner=[CudaPartitioner()])
    values = values_of_blocks(weight).cuda()
    options = {"AotiCudaBackend": {"cuda_graphs": graphs}}
    with Program(bytes(edge.to_executorch().buffer)) as program:
        method = program.method(options=options)
        for count in (*ROWS, 3, 4, 5):
            x = torch.randn(count, 2048, device="cuda").bfloat16()
            expected, usual = x.double() @ values.t(), x @ values.bfloat16().t()
            for _ in range(3 if graphs else 1):
                (found,) = method(x)
                error = (found.double() - expected).norm()
                assert error <= 1.2 * (usual.double() - expected).norm(), (count, error)
