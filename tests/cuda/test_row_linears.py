"""Products of one row with weights of 16 bits: recognised with what stands around them, lowered."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from decoder_blocks import (
    ACTIVATIONS,
    Block,
    ComputedBiases,
    LooksAlike,
    Together,
    as_pipeline_has_it,
)
from support import lower
from torch import Tensor, nn
from torch.export import ExportedProgram

from aoti_plugins import CudaPartitioner
from aoti_plugins.cuda.passes.row_linears import row_linears

WIDTH, HIDDEN = 512, 1024
ROW_LINEAR = "aoti_plugins.row_linear.default"
SHIM = "aoti_torch_cuda_row_linear"


def block(**kwargs: Any) -> Block:
    options = {"joined": False, "inside": False, "activation": nn.SiLU(), "bias": False, **kwargs}
    return Block(**options, width=WIDTH, hidden=HIDDEN).bfloat16().eval()


def after_pass(model: nn.Module, *inputs: Tensor) -> ExportedProgram:
    program = as_pipeline_has_it(model, inputs)
    row_linears(program)
    return program


def products(program: ExportedProgram) -> list[Any]:
    return [node for node in program.graph.nodes if str(node.target) == ROW_LINEAR]


def a_row(dtype: torch.dtype = torch.bfloat16) -> Tensor:
    return torch.randn(1, 1, WIDTH, dtype=torch.float32).to(dtype)


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_block_becomes_two_products(joined: bool, inside: bool, activation: str) -> None:
    model = block(joined=joined, inside=inside, activation=ACTIVATIONS[activation])
    x = a_row()
    program = after_pass(model, x)
    first, second = products(program)
    called = [node for node in program.graph.nodes if node.op == "call_function"]
    assert called == [first, second]
    _, _, second_weight, _, _, norm, _, epsilon, gate = first.args
    assert (second_weight is None, norm is None, epsilon) == (joined, False, 1e-5)
    assert gate == 1 + list(ACTIVATIONS).index(activation)
    assert second.args[6] is first.args[0]  # the residual
    exact = model.double()(x.double())
    error = (program.module()(x).double() - exact).norm()
    assert error <= (model.bfloat16()(x).double() - exact).norm()


def test_no_weight_is_made() -> None:
    """What a method for many rows has as it is, too, is stored once."""
    model = block()
    program = after_pass(model, a_row())
    assert set(program.state_dict) == set(model.state_dict())
    assert not program.constants


def test_biases_of_two_products_become_one() -> None:
    model, x = block(bias=True), a_row()
    program = after_pass(model, x)
    assert [node.args[4] is None for node in products(program)] == [False, True]
    torch.testing.assert_close(program.module()(x), model(x), rtol=0.03, atol=0.03)


@pytest.mark.parametrize("bias", [False, True])
def test_products_of_the_same_row_become_one(bias: bool) -> None:
    model = Together(WIDTH, (1024, 64, 65, 1030), bias).bfloat16().eval()
    x = a_row()
    program = after_pass(model, x)
    assert [[one is None for one in node.args[1:4]] for node in products(program)] == [
        [False, False, False],
        [False, True, True],
    ]
    assert all(node.args[5] is not None for node in products(program))
    for found, expected in zip(program.module()(x), model(x), strict=True):
        torch.testing.assert_close(found, expected, rtol=0.03, atol=0.03)


def test_a_bias_that_is_computed_is_not_read_early() -> None:
    model, x = ComputedBiases(1024, 1024).bfloat16().eval(), torch.randn(1, 1024).bfloat16()
    assert products(after_pass(model, x)) == []


def test_what_only_looks_alike_stays() -> None:
    model, x = LooksAlike(1024).bfloat16().eval(), torch.randn(1, 1024).bfloat16()
    program = after_pass(model, x)
    assert len(products(program)) == 6
    for node in products(program):
        assert (node.args[2], node.args[5], node.args[6], node.args[8]) == (None, None, None, 0)
    for found, expected in zip(program.module()(x), model(x), strict=True):
        torch.testing.assert_close(found, expected, rtol=0.03, atol=0.03)


class Linear(nn.Module):
    """A layer whose weight may be computed first."""

    def __init__(self, k: int, n: int, computed: bool = False) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.layer, self.computed = nn.Linear(k, n), computed

    def forward(self, x: Tensor) -> Tensor:
        weight = self.layer.weight
        return nn.functional.linear(x, weight * 2 if self.computed else weight, self.layer.bias)


@pytest.mark.parametrize(
    ("rows", "k", "n", "dtype", "computed", "is_replaced"),
    [
        (1, 1024, 512, torch.bfloat16, False, True),
        (1, 1024, 515, torch.float16, False, True),
        (2, 1024, 512, torch.bfloat16, False, False),  # a kernel of Triton's has few rows
        (1, 1024, 511, torch.bfloat16, False, False),  # a small weight
        (1, 1040, 1024, torch.bfloat16, False, False),  # no runs of 32
        (1, 1024, 512, torch.float32, False, False),
        (1, 1024, 512, torch.bfloat16, True, False),
    ],
)
def test_which_products_are_replaced(
    rows: int, k: int, n: int, dtype: torch.dtype, computed: bool, is_replaced: bool
) -> None:
    model, x = Linear(k, n, computed).to(dtype).eval(), torch.randn(rows, k).to(dtype)
    program = after_pass(model, x)
    assert bool(products(program)) == is_replaced
    torch.testing.assert_close(program.module()(x), model(x), rtol=0.03, atol=0.03)


@pytest.mark.parametrize(
    ("targets", "is_called"),
    [(("h100",), True), (("h100", "b200"), True), (("a100", "h100"), False)],
)
def test_a_lowered_block_calls_the_runtime_where_all_gpus_have_the_kernel(
    targets: tuple[str, ...], is_called: bool, tmp_path: Path, contents: Callable[[Path], Any]
) -> None:
    path = tmp_path / "model.pte"
    partitioner = CudaPartitioner(targets=targets)
    path.write_bytes(lower(block(), (a_row(),), partitioner=partitioner).buffer)
    (payload,), _, outside = contents(path)
    assert outside == []
    for target in payload.targets:
        assert (SHIM in target.symbols) == is_called
