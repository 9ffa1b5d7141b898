"""Products with weights of floats of 8 and 4 bits on the CPU: recognised, exact, not copied."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from each_model import Each
from executorch.exir._serialize._program import deserialize_pte_binary
from exportable_weights import FORMS, OneProduct, Tied, WithBias, values_of
from support import lower
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export

from aoti_plugins import CpuPartitioner
from aoti_plugins.cpu.passes.float_linears import float_linears
from aoti_plugins.lowering.small_weights.float_weights import values
from aoti_plugins.runtime import Program

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torchao's, about itself
    from torchao.quantization import Float8Tensor, Float8WeightOnlyConfig, quantize_

Called = Callable[[ExportedProgram], list[str]]
Run = Callable[..., list[Tensor]]

N, K = 48, 512
OURS = "aoti_plugins::float_linear"


def _float8(n: int, k: int, dtype: torch.dtype, weight_dtype: torch.dtype) -> Any:
    linear = nn.Linear(k, n, dtype=dtype).requires_grad_(False)
    quantize_(linear, Float8WeightOnlyConfig(weight_dtype=weight_dtype))
    return linear.weight


KINDS: dict[str, Callable[[int, int, torch.dtype], Any]] = {
    "mxfp8": FORMS["mxfp8"],
    "nvfp4": FORMS["nvfp4"],
    "float8_e4m3fn": lambda n, k, dtype: _float8(n, k, dtype, torch.float8_e4m3fn),
    "float8_e5m2": lambda n, k, dtype: _float8(n, k, dtype, torch.float8_e5m2),
}


def _exact(weight: Any) -> Tensor:
    """What a weight stands for, in float64."""
    if isinstance(weight, Float8Tensor):
        return weight.qdata.double() * weight.scale.double()
    return values_of(weight)


@pytest.mark.parametrize("everything", [False, True])
@pytest.mark.parametrize("name", ["mxfp8", "nvfp4"])
def test_products_are_replaced(called: Called, name: str, everything: bool) -> None:
    torch.manual_seed(0)
    model, x = WithBias(KINDS[name](N, K, torch.float32)), torch.randn(3, K)
    program = export(model, (x,)).run_decompositions(None if everything else {})
    expected = program.module()(x)
    float_linears(program)
    assert called(program) == [OURS]
    torch.testing.assert_close(program.module()(x), expected, rtol=1e-4, atol=1e-4)


def test_other_products_stay(called: Called) -> None:
    weight, x = KINDS["mxfp8"](N, K, torch.float64), torch.randn(3, K, dtype=torch.float64)
    program = export(OneProduct(weight), (x,)).run_decompositions({})
    before, constants = called(program), len(program.state_dict)
    float_linears(program)
    assert called(program) == before
    assert len(program.state_dict) == constants


def test_values_are_those_of_pytorchs_dtypes() -> None:
    bits = torch.arange(256, dtype=torch.uint8)
    codes = bits.repeat_interleave(32).reshape(256, 32)
    for kind, dtype in (("e4m3", torch.float8_e4m3fn), ("e5m2", torch.float8_e5m2)):
        found = values(codes, torch.ones(256, 1), 2.0, kind)
        expected = (bits.view(dtype).float() * 2)[:, None].expand(256, 32)
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
        scaled = values(codes, bits[:, None], 1.0, f"mx_{kind}")
        expected = bits.view(dtype).float() * bits.view(torch.float8_e8m0fnu).float()
        torch.testing.assert_close(
            scaled, expected[:, None].expand(256, 32), rtol=0, atol=0, equal_nan=True
        )


def test_results_are_those_of_dequantised_weights(run: Run) -> None:
    torch.manual_seed(1)
    dtypes = (torch.float32, torch.bfloat16, torch.float16)
    cases = [(name, dtype, rows) for name in KINDS for dtype in dtypes for rows in (1, 5, 40)]
    weights = [KINDS[name](N, K, dtype) for name, dtype, _ in cases]
    inputs = [torch.randn(rows, K).to(dtype) for _, dtype, rows in cases]
    found = run(Each(map(OneProduct, weights)), inputs)
    for (name, dtype, rows), weight, x, result in zip(cases, weights, inputs, found, strict=True):
        exact = _exact(weight)
        expected = x.double() @ exact.t()
        error = (result.double() - expected).norm()
        if dtype == torch.float32:
            assert error <= 1e-5 * expected.norm(), (name, rows)
        else:
            rounded = (x @ exact.to(dtype).t()).double() - expected
            assert error <= 1.2 * rounded.norm(), (name, dtype, rows)


def test_casts_and_scales_of_torchao_are_replaced(called: Called) -> None:
    torch.manual_seed(4)
    weight, x = KINDS["float8_e4m3fn"](N, K, torch.float32), torch.randn(2, 3, K)
    program = export(OneProduct(weight), (x,)).run_decompositions({})
    expected = program.module()(x)
    float_linears(program)
    assert OURS in called(program)
    assert not {"aten::matmul", "aten::mm"} & set(called(program))
    torch.testing.assert_close(program.module()(x), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("has_one_scale", [False, True])
def test_float8_of_torchao_with_any_number_of_rows(run: Run, has_one_scale: bool) -> None:
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(K, N)).requires_grad_(False)
    bias = model[0].bias.double()
    quantize_(model, Float8WeightOnlyConfig())
    if has_one_scale:
        model[0].weight.scale = model[0].weight.scale.max().reshape(1, 1)
    x = torch.randn(2, 19, K)
    shapes = ({1: Dim("rows", max=64)},)
    (found,) = run(model, x, dynamic_shapes=shapes)
    expected = x.double() @ _exact(model[0].weight).t() + bias
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["mxfp8", "nvfp4"])
def test_an_embedding_that_is_the_head_is_there_once(name: str) -> None:
    torch.manual_seed(3)
    weight, x = KINDS[name](N, K, torch.bfloat16), torch.randn(1, K).bfloat16()
    numbers = torch.tensor([[5, 0], [39, 5]])
    lowered = lower(Tied(weight).eval(), (numbers, x), partitioner=CpuPartitioner())
    named = deserialize_pte_binary(lowered.buffer).named_data
    keys = [key for key in named.pte_data if key.endswith("_weights_blob")]
    nbytes = [len(named.buffers[named.pte_data[key].buffer_index]) for key in keys]
    bits = 8 if name == "mxfp8" else 4
    scales = N * K // (32 if name == "mxfp8" else 16)
    assert sum(nbytes) <= N * K * bits // 8 + scales + 64 * (len(nbytes) + 3)
    with Program(bytes(lowered.buffer)) as program:
        rows, product = program(numbers, x)
    exact = values_of(weight)
    assert torch.equal(rows, exact.to(torch.bfloat16)[numbers])
    torch.testing.assert_close(product.double(), x.double() @ exact.t(), rtol=2**-7, atol=1e-2)
