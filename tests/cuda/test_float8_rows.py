"""Products of one row with weights of float8: recognised, and generated as sums."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from decoder_blocks import as_pipeline_has_it
from support import lower
from torch import Tensor, nn
from torch.export import ExportedProgram
from torchao.quantization import Float8WeightOnlyConfig, quantize_

from aoti_plugins import CudaPartitioner
from aoti_plugins.cuda.passes.float8_rows import float8_rows
from aoti_plugins.lowering.small_weights.sources import name_of

WIDTH, COLUMNS = 256, 96

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def layer(bias: bool = False, dtype: torch.dtype = torch.bfloat16) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, COLUMNS, bias=bias)).to(dtype).eval()
    quantize_(model.requires_grad_(False), Float8WeightOnlyConfig())
    return model


def after_pass(model: nn.Module, x: Tensor) -> ExportedProgram:
    program = as_pipeline_has_it(model, (x,))
    float8_rows(program)
    return program


def products(program: ExportedProgram) -> list[str]:
    called = [name_of(node) for node in program.graph.nodes]
    return [name for name in called if name in ("aten::matmul", "aten::mm", "aten::addmm")]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("rows", [(), (1,), (1, 1)])
def test_a_row_is_multiplied_by_a_sum(
    bias: bool, dtype: torch.dtype, rows: tuple[int, ...]
) -> None:
    model, x = layer(bias, dtype), torch.randn(*rows, WIDTH).to(dtype)
    program = after_pass(model, x)
    assert not products(program)
    found, expected = program.module()(x), model(x)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    weight = model[0].weight
    exact = x.double() @ (weight.qdata.double() * weight.scale.double()).t()
    if bias:
        exact = exact + model[0].bias.double()
    step = torch.finfo(dtype).eps
    torch.testing.assert_close(found.double(), exact, rtol=2 * step, atol=4 * step)


def test_rows_are_left_to_a_library() -> None:
    assert products(after_pass(layer(), torch.randn(2, WIDTH).bfloat16()))


def test_a_weight_that_is_computed_is_left() -> None:
    class Model(nn.Module):
        def forward(self, x: Tensor, codes: Tensor, scale: Tensor) -> Tensor:
            return x @ (codes.t().float() * scale.t()).bfloat16()

    x, codes = torch.randn(1, WIDTH).bfloat16(), torch.randn(8, WIDTH).to(torch.float8_e4m3fn)
    program = as_pipeline_has_it(Model(), (x, codes, torch.rand(8, 1)))
    float8_rows(program)
    assert products(program)


class Made(nn.Module):
    """A product with a weight that is made of codes by some function."""

    def __init__(self, codes: Tensor, weight: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.register_buffer("codes", codes.to(torch.float8_e4m3fn))
        self.register_buffer("scale", torch.full((1, 1), 0.5))
        self._weight = weight

    def forward(self, x: Tensor) -> Tensor:
        return x @ self._weight(self.codes, self.scale)


@pytest.mark.parametrize(
    ("sizes", "dtype", "weight"),
    [
        ((8, 8), torch.float32, lambda codes, scale: codes.permute(0, 1).float() * scale.t()),
        ((1, 8, 8), torch.float32, lambda codes, scale: codes.mT.float() * scale.t()),
        ((8, 8), torch.float64, lambda codes, scale: (codes.t().float() * scale.t()).double()),
    ],
)
def test_what_only_looks_alike_is_left(
    sizes: tuple[int, ...], dtype: torch.dtype, weight: Callable[[Tensor, Tensor], Tensor]
) -> None:
    torch.manual_seed(0)
    model, x = Made(torch.randn(sizes), weight), torch.randn(1, 8, dtype=dtype)
    program = after_pass(model, x)
    assert products(program)
    torch.testing.assert_close(program.module()(x), model(x))


@pytest.mark.parametrize(("rows", "is_library"), [(1, False), (4, True)])
def test_lowered_whole(rows: int, is_library: bool, tmp_path: Path) -> None:
    x = torch.randn(rows, WIDTH).bfloat16()
    program = lower(layer(), (x,), partitioner=CudaPartitioner(target="h100"))
    (plan,) = program.executorch_program.execution_plan
    assert not plan.operators
    assert (b"aoti_torch_cuda_mm_out" in bytes(program.buffer)) is is_library
