"""Products of one row with weights of floats of 8 and 4 bits: recognised, and right."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import float_row_cases
import pytest
import torch
from decoder_blocks import as_pipeline_has_it
from executorch.extension.llm.export.nvfp4 import ExportableNVFP4Config
from exportable_weights import FORMS, WithBias, values_of
from support import lower
from torch import Tensor, nn
from torch.export import ExportedProgram
from torchao.quantization import Float8WeightOnlyConfig, quantize_

from aoti_plugins import CudaPartitioner
from aoti_plugins.cuda.passes.float_rows import float_rows
from aoti_plugins.lowering.small_weights.sources import name_of

pytest.importorskip("triton")

WIDTH, COLUMNS = 256, 96
OURS = "aoti_plugins::float_row"
PRODUCTS = ("aten::matmul", "aten::mm", "aten::addmm", "aten::linear")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def layer(bias: bool = False, dtype: torch.dtype = torch.bfloat16, width: int = WIDTH) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(width, COLUMNS, bias=bias)).to(dtype).eval()
    quantize_(model.requires_grad_(False), Float8WeightOnlyConfig())
    return model


def after_pass(model: nn.Module, *inputs: Tensor) -> ExportedProgram:
    program = as_pipeline_has_it(model, inputs)
    float_rows(program)
    return program


def products(program: ExportedProgram) -> list[str]:
    called = [name_of(node) for node in program.graph.nodes]
    return [name for name in called if name in (*PRODUCTS, OURS)]


def check(path: Path, *arguments: str) -> None:
    command = [sys.executable, float_row_cases.__file__, str(path), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    errors = json.loads(path.read_text())
    assert errors.keys() == float_row_cases.CASES.keys()
    for name, error in errors.items():
        assert error < float_row_cases.DTYPES[float_row_cases.CASES[name][1]], (name, error)


def test_the_kernel_is_right(tmp_path: Path) -> None:
    check(tmp_path / "errors.json")


@pytest.mark.gpu
def test_the_kernel_is_right_on_a_gpu(tmp_path: Path) -> None:
    check(tmp_path / "errors.json", "cuda")


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("rows", [(), (1,), (1, 1)])
def test_a_row_reads_float8(bias: bool, dtype: torch.dtype, rows: tuple[int, ...]) -> None:
    model, x = layer(bias, dtype), torch.randn(*rows, WIDTH).to(dtype)
    program = after_pass(model, x)
    assert products(program) == [OURS]
    found, expected = program.module()(x), model(x)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    weight = model[0].weight
    exact = x.double() @ (weight.qdata.double() * weight.scale.double()).t()
    if bias:
        exact = exact + model[0].bias.double()
    step = torch.finfo(dtype).eps
    torch.testing.assert_close(found.double(), exact, rtol=2 * step, atol=4 * step)


@pytest.mark.parametrize("name", ["mxfp8", "nvfp4"])
def test_a_row_reads_executorchs_forms(name: str) -> None:
    torch.manual_seed(1)
    model = WithBias(FORMS[name](COLUMNS, WIDTH, torch.bfloat16)).eval()
    x = torch.randn(1, WIDTH).bfloat16()
    program = after_pass(model, x)
    assert products(program) == [OURS]
    expected = x.double() @ values_of(model.weight).t() + model.bias.double()
    torch.testing.assert_close(program.module()(x).double(), expected, rtol=1e-2, atol=2e-2)


def test_more_rows_are_left_to_a_library() -> None:
    assert products(after_pass(layer(), torch.randn(2, WIDTH).bfloat16())) != [OURS]


def test_rows_that_are_no_whole_pieces_are_left() -> None:
    assert products(after_pass(layer(width=40), torch.randn(1, 40).bfloat16())) != [OURS]


def test_a_weight_that_is_no_number_is_left() -> None:
    """The kernel would make one of it."""
    model, x = layer(), torch.randn(1, WIDTH).bfloat16()
    model[0].weight.qdata.view(torch.uint8)[3, 5] = 0xFF
    program = after_pass(model, x)
    assert OURS not in products(program)
    assert program.module()(x)[0, 3].isnan()


def test_a_weight_that_is_computed_is_left() -> None:
    class Model(nn.Module):
        def forward(self, x: Tensor, codes: Tensor, scale: Tensor) -> Tensor:
            return x @ (codes.t().float() * scale.t()).bfloat16()

    x, codes = torch.randn(1, WIDTH).bfloat16(), torch.randn(8, WIDTH).to(torch.float8_e4m3fn)
    assert OURS not in products(after_pass(Model(), x, codes, torch.rand(8, 1)))


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
        ((32, 32), torch.float32, lambda codes, scale: codes.permute(0, 1).float() * scale.t()),
        ((1, 32, 32), torch.float32, lambda codes, scale: codes.mT.float() * scale.t()),
        ((32, 32), torch.float64, lambda codes, scale: (codes.t().float() * scale.t()).double()),
    ],
)
def test_what_only_looks_alike_is_left(
    sizes: tuple[int, ...], dtype: torch.dtype, weight: Callable[[Tensor, Tensor], Tensor]
) -> None:
    torch.manual_seed(0)
    model, x = Made(torch.randn(sizes), weight), torch.randn(1, 32, dtype=dtype)
    program = after_pass(model, x)
    assert OURS not in products(program)
    torch.testing.assert_close(program.module()(x), model(x))


@pytest.mark.parametrize("rows", [1, 4])
def test_lowered_whole(rows: int) -> None:
    """Of float16, which products of any number of rows are not taken of."""
    torch.manual_seed(2)
    x = torch.randn(rows, WIDTH).half()
    partitioner = CudaPartitioner(target="h100")
    program = lower(layer(dtype=torch.float16), (x,), partitioner=partitioner)
    (plan,) = program.executorch_program.execution_plan
    assert not plan.operators
    data = bytes(program.buffer)
    assert (b"one_row" in data) is (rows == 1)
    assert rows > 1 or b"mm_out" not in data


class Sum(nn.Module):
    """Several products of a row whose weights have other numbers each, added up."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, columns, bias=False) for _ in range(3))
        for number, one in enumerate(self.layers):
            one.weight.data *= number + 1

    def forward(self, x: Tensor) -> Tensor:
        first, second, third = (one(x) for one in self.layers)
        return first * second * third


def test_weights_with_other_scales_share_a_kernel(tmp_path: Path) -> None:
    """NVFP4 has a number for all of a weight, which would be part of the code."""
    torch.manual_seed(4)
    model = Sum(96)
    quantize_(model.requires_grad_(False), ExportableNVFP4Config())
    partitioner = CudaPartitioner(target="h100", keep_sources=str(tmp_path))
    lower(model.eval(), (torch.randn(1, WIDTH),), partitioner=partitioner)
    (wrapper,) = tmp_path.rglob("wrapper.cpp")
    assert len(set(re.findall(r"\bone_row_\d+\b", wrapper.read_text()))) == 1
