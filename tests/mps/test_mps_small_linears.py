"""Products with weights of 4 and 8 bits on Apple GPUs: recognised, and right over a stand-in."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from each_model import Each
from exportable_weights import OneProduct, WithBias
from small_tables import TABLES, values_of
from support import lower
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export

from aoti_plugins import MpsPartitioner
from aoti_plugins.mps.passes.small_linears import small_linears
from aoti_plugins.runtime import Program

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torchao's, about itself
    from torchao.quantization import (
        Int8DynamicActivationIntxWeightConfig,
        Int8WeightOnlyConfig,
        quantize_,
    )
    from torchao.quantization.granularity import PerGroup

pytestmark = pytest.mark.usefixtures("metal")

Called = Callable[[ExportedProgram], list[str]]

N, K = 40, 256
OURS = "aoti_plugins::small_linear"
SHIM = b"aoti_torch_mps_small_linear"
NAMES = (
    "int4, groups of 32",
    "int4, groups of 128, zeros",
    "int4, rows",
    "int8, rows",
    "int8, groups of 64, zeros",
    "int4",
)
ROWS = (1, 3, 4, 5, 40)


def _lowered(model: nn.Module, *inputs: Any, **options: Any) -> bytes:
    partitioner = MpsPartitioner(target="host")
    return bytes(lower(model.eval(), inputs, partitioner=partitioner, **options).buffer)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_results_are_those_of_dequantised_weights(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    cases = [(name, rows) for name in NAMES for rows in ROWS]
    weights = {name: TABLES[name](N, K, dtype) for name in NAMES}
    models = [WithBias(weights[name]) for name, _ in cases]
    inputs = [torch.randn(rows, K).to(dtype) for _, rows in cases]
    buffer = _lowered(Each(models), inputs)
    assert SHIM in buffer
    with Program(buffer) as program:
        found = [result.clone() for result in program(*inputs)]
    for (name, rows), model, x, result in zip(cases, models, inputs, found, strict=True):
        exact, bias = values_of(weights[name]), model.bias.detach()
        expected = x.double() @ exact.t() + bias.double()
        error = (result.double() - expected).norm()
        if dtype == torch.float32:
            assert error <= 1e-5 * expected.norm(), (name, rows)
        else:
            usual = (x @ exact.to(dtype).t() + bias).double() - expected
            assert error <= 1.2 * usual.norm(), (name, rows)


def test_any_number_of_rows_in_any_layout() -> None:
    torch.manual_seed(1)
    weight = TABLES["int4, groups of 32"](N, K, torch.float32)

    class Turned(OneProduct):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x.transpose(0, 1))

    x = torch.randn(K, 19)
    rows = Dim("rows", min=2, max=64)
    buffer = _lowered(Turned(weight), x, dynamic_shapes=({1: rows},))
    assert SHIM in buffer
    with Program(buffer) as program:
        for count in (2, 19, 64):
            x = torch.randn(K, count)
            (found,) = program(x)
            expected = x.double().t() @ values_of(weight).t()
            torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "config",
    [
        Int8WeightOnlyConfig(),
        Int8DynamicActivationIntxWeightConfig(
            weight_dtype=torch.int4, weight_granularity=PerGroup(32)
        ),
    ],
    ids=["scales behind the product", "rows that are 8-bit numbers become floats"],
)
def test_other_forms_of_torchao(config: Any) -> None:
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(K, N)).requires_grad_(False)
    quantize_(model, config)
    x = torch.randn(3, K)
    buffer = _lowered(model, x)
    assert SHIM in buffer
    with Program(buffer) as program:
        torch.testing.assert_close(program(x)[0], model(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_blocks_of_gguf_files_are_read_as_they_are(dtype: torch.dtype) -> None:
    torch.manual_seed(4)
    cases = [(kind, rows) for kind in ("q4_k", "q5_k", "q6_k") for rows in (1, 6, 40)]
    weights = {kind: TABLES[kind](N, 512, dtype) for kind, _ in cases}
    models = [WithBias(weights[kind]) for kind, _ in cases]
    inputs = [torch.randn(rows, 512).to(dtype) for _, rows in cases]
    buffer = _lowered(Each(models), inputs)
    assert b"aoti_torch_mps_gguf_linear" in buffer
    with Program(buffer) as program:
        found = [result.clone() for result in program(*inputs)]
    for (kind, rows), model, x, result in zip(cases, models, inputs, found, strict=True):
        exact, bias = values_of(weights[kind]), model.bias.detach()
        expected = x.double() @ exact.t() + bias.double()
        error = (result.double() - expected).norm()
        if dtype == torch.float32:
            assert error <= 1e-5 * expected.norm(), (kind, rows)
        else:
            usual = (x @ exact.to(dtype).t() + bias).double() - expected
            assert error <= 1.2 * usual.norm(), (kind, rows)


def test_what_kernels_do_not_take_stays(called: Called) -> None:
    for name in ("q4_k", "q6_k", "nvfp4"):
        weight, x = TABLES[name](48, K, torch.float32), torch.randn(3, K)
        program = export(OneProduct(weight), (x,)).run_decompositions({})
        before = called(program)
        small_linears(program)
        assert called(program) == before
    bias = WithBias(TABLES["int8, rows"](N, K, torch.float32))
    program = export(bias, (torch.randn(3, K),)).run_decompositions({})
    small_linears(program)
    assert OURS in called(program)
