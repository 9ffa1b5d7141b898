"""Products of any number of rows with weights of floats of 8 and 4 bits: recognised, and right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from decoder_blocks import ACTIVATIONS, WIDTH, Block, Together, as_pipeline_has_it, exact_block
from executorch.extension.llm.export.mx import ExportableMXConfig
from executorch.extension.llm.export.nvfp4 import ExportableNVFP4Config
from exportable_weights import FORMS, Tied
from support import lower
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torchao.quantization import Float8WeightOnlyConfig, quantize_

from aoti_plugins import CudaPartitioner
from aoti_plugins.cuda.passes.float_linears import float_linears
from aoti_plugins.cuda.passes.fused_linears import fused_linears
from aoti_plugins.cuda.small_weights.layout import FLOAT, FLOAT_E5M2
from aoti_plugins.lowering.small_weights.sources import name_of

OURS = "aoti_plugins::fused_linear"
CONFIGS: dict[str, Callable[[], Any]] = {
    "float8": Float8WeightOnlyConfig,
    "float8, e5m2": lambda: Float8WeightOnlyConfig(weight_dtype=torch.float8_e5m2),
    "mxfp8": ExportableMXConfig,
    "nvfp4": ExportableNVFP4Config,
}
KINDS = {
    "float8": (8, WIDTH, FLOAT),
    "float8, e5m2": (8, WIDTH, FLOAT_E5M2),
    "mxfp8": (8, 32, FLOAT),
    "nvfp4": (4, 16, FLOAT),
}

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def quantised(model: nn.Module, name: str, dtype: torch.dtype = torch.bfloat16) -> nn.Module:
    model = model.to(dtype).eval().requires_grad_(False)
    quantize_(model, CONFIGS[name]())
    return model


def layer(name: str, n: int = 96, k: int = WIDTH, **kwargs: Any) -> nn.Linear:
    torch.manual_seed(0)
    model: Any = quantised(nn.Linear(k, n), name, **kwargs)
    return model


def values_of(weight: Any) -> Tensor:
    return weight.dequantize(torch.float32).double()


def after_pass(model: nn.Module, *inputs: Tensor, **kwargs: Any) -> ExportedProgram:
    program = as_pipeline_has_it(model, inputs, **kwargs)
    float_linears(program)
    return program


def called(program: ExportedProgram) -> list[str]:
    return [name_of(node) for node in program.graph.nodes if node.op == "call_function"]


def products(program: ExportedProgram) -> list[Any]:
    return [node for node in program.graph.nodes if name_of(node) == OURS]


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("rows", [(), (1,), (2, 3)])
def test_products_of_any_rows_are_recognised(name: str, rows: tuple[int, ...]) -> None:
    model, x = layer(name), torch.randn(*rows, WIDTH).bfloat16()
    program = after_pass(model, x)
    assert called(program) == [OURS]
    assert products(program)[0].args[7:10] == KINDS[name]
    found = program.module()(x)
    exact = x.double() @ values_of(model.weight).t() + model.bias.double()
    assert found.shape == exact.shape
    torch.testing.assert_close(found.double(), exact, rtol=2**-8, atol=2**-12)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_weight_is_held_in_its_bits(name: str) -> None:
    program = after_pass(layer(name, 256, 512), torch.randn(1, 512).bfloat16())
    args = products(program)[0].args
    nbytes = sum(node.meta["val"].nbytes for node in args[1:4] if node is not None)
    bits, group, _ = args[7:10]
    needed = 256 * 512 * bits // 8 + 256 * (512 // group if group < 512 else 4)
    assert nbytes <= 1.05 * needed


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("rows", [1, 5])
def test_a_block_becomes_two_products(name: str, rows: int) -> None:
    options: dict[str, Any] = {"joined": False, "inside": False, "activation": ACTIVATIONS["silu"]}
    model = quantised(Block(**options), name)
    x = torch.randn(1, rows, WIDTH).bfloat16()
    program = after_pass(model, x)
    fused_linears(program)
    first, _ = products(program)
    assert first.args[11] != 0  # the gate
    assert (first.args[5] is not None) is (rows == 1)  # the norm
    expected = exact_block(model, values_of, **options)(x.double())
    error = (program.module()(x).double() - expected).norm()
    assert error <= 1.05 * (model(x).double() - expected).norm()


@pytest.mark.parametrize("name", CONFIGS)
def test_products_of_the_same_rows_become_one(name: str) -> None:
    model = quantised(Together(WIDTH, (256, 64, 80), bias=True), name)
    x = torch.randn(1, WIDTH).bfloat16()
    program = after_pass(model, x)
    fused_linears(program)
    (product,) = products(program)
    assert product.args[1].meta["val"].size(0) * 8 == 256 + 64 + 80
    for found, expected in zip(program.module()(x), model(x), strict=True):
        torch.testing.assert_close(found, expected, rtol=0.03, atol=0.03)


@pytest.mark.parametrize(
    ("n", "k", "dtype"),
    [
        (100, WIDTH, torch.bfloat16),  # rows of a tile
        (96, 48, torch.bfloat16),
        (96, WIDTH, torch.float16),
        (96, WIDTH, torch.float32),
    ],
)
def test_what_kernels_do_not_take_is_left(n: int, k: int, dtype: torch.dtype) -> None:
    model, x = layer("float8", n, k, dtype=dtype), torch.randn(2, k).to(dtype)
    program = after_pass(model, x)
    assert not products(program)
    torch.testing.assert_close(program.module()(x), model(x))


def test_a_row_that_is_one_group_is_left() -> None:
    """Nothing tells it from a row with one scale of float32."""
    assert not products(after_pass(layer("mxfp8", 96, 32), torch.randn(1, 32).bfloat16()))


@pytest.mark.parametrize(
    ("name", "part", "byte"),
    [
        ("float8", "qdata", 0xFF),
        ("float8, e5m2", "qdata", 0x7C),
        ("mxfp8", "qdata", 0x7F),
        ("mxfp8", "scale", 0xFF),
        ("mxfp8", "scale", 180),
        ("mxfp8", "scale", 20),
        ("nvfp4", "scale", 0x7F),
    ],
)
def test_what_kernels_have_no_numbers_for_is_left(name: str, part: str, byte: int) -> None:
    """No number, or one that bfloat16 has no room for in the form that kernels give it."""
    model, x = layer(name), torch.randn(2, WIDTH).bfloat16()
    assert products(after_pass(model, x))
    weight: Any = model.weight
    getattr(weight, part).view(torch.uint8).view(-1)[5] = byte
    assert not products(after_pass(model, x))


def test_a_scale_of_nothing_but_zeros_does_not_matter() -> None:
    model, x = layer("mxfp8"), torch.randn(2, WIDTH).bfloat16()
    weight: Any = model.weight
    weight.qdata.view(torch.uint8)[3, :32] = 0
    weight.scale.view(torch.uint8).view(96, -1)[3, 0] = 0
    program = after_pass(model, x)
    assert products(program)
    assert program.module()(x).isfinite().all()


@pytest.mark.parametrize("name", ["mxfp8", "nvfp4"])
def test_a_weight_that_is_an_embedding_too_is_left(name: str) -> None:
    """It would be held twice."""
    model = Tied(FORMS[name](96, WIDTH, torch.bfloat16)).eval()
    inputs = torch.tensor([3, 4]), torch.randn(2, WIDTH).bfloat16()
    assert not products(after_pass(model, *inputs))


@pytest.mark.parametrize("name", ["float8", "mxfp8", "nvfp4"])
def test_lowered_whole(name: str) -> None:
    x, rows = torch.randn(3, WIDTH).bfloat16(), Dim("rows", min=1, max=64)
    partitioner = CudaPartitioner(target="h100")
    program = lower(layer(name), (x,), partitioner=partitioner, dynamic_shapes=({0: rows},))
    (plan,) = program.executorch_program.execution_plan
    assert not plan.operators
    data = bytes(program.buffer)
    assert b"fused_linear" in data
    assert b"mm_out" not in data
