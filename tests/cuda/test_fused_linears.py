"""Products with what stands around them: recognised, equal, lowered."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from decoder_blocks import (
    ACTIVATIONS,
    WIDTH,
    Block,
    ComputedBiases,
    LooksAlike,
    NormOfGemma,
    Together,
    as_pipeline_has_it,
    exact_block,
)
from small_weight_cases import values_of
from support import lower
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torchao.quantization import IntxWeightOnlyConfig, quantize_
from torchao.quantization.granularity import PerGroup

from aoti_plugins import CudaPartitioner
from aoti_plugins.cuda.passes.fused_linears import fused_linears
from aoti_plugins.cuda.passes.small_weights import small_weights
from aoti_plugins.lowering.program_constants import constant_of

FUSED = "aoti_plugins.fused_linear.default"


BITS = {4: torch.int4, 8: torch.int8}


def quantised(model: nn.Module, bits: int = 4) -> nn.Module:
    model = model.bfloat16().eval()
    quantize_(model, IntxWeightOnlyConfig(BITS[bits], PerGroup(32)))
    return model


def block(bits: int = 4, **kwargs: Any) -> nn.Module:
    options = {"joined": False, "inside": False, "activation": nn.SiLU(), **kwargs}
    return quantised(Block(**options), bits)


def fused(program: ExportedProgram) -> list[Any]:
    return [node for node in program.graph.nodes if str(node.target) == FUSED]


def after_passes(model: nn.Module, inputs: tuple[Tensor, ...], **kwargs: Any) -> ExportedProgram:
    program = as_pipeline_has_it(model, inputs, **kwargs)
    small_weights(program)
    fused_linears(program)
    return program


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("bits", BITS)
def test_a_block_becomes_two_products(
    joined: bool, inside: bool, activation: str, bits: int
) -> None:
    options = {"joined": joined, "inside": inside, "activation": ACTIVATIONS[activation]}
    model = block(bits, **options)
    x = torch.randn(1, 1, WIDTH).bfloat16()
    program = after_passes(model, (x,))
    first, second = fused(program)
    called = [node for node in program.graph.nodes if node.op == "call_function"]
    assert called == [first, second]
    assert first.args[5] is not None
    assert first.args[11] == 1 + list(ACTIVATIONS).index(activation)
    assert second.args[6] is first.args[0]  # the residual
    expected = exact_block(model, values_of, **options)(x.double())
    error = (program.module()(x).double() - expected).norm()
    assert error <= 1.05 * (model(x).double() - expected).norm()


@pytest.mark.parametrize("inside", [False, True])
def test_factors_of_a_norm_may_be_one_more_than_weights(inside: bool) -> None:
    plain = Together(WIDTH, (256, 64), bias=False)
    plain.norm = NormOfGemma(inside)
    model = quantised(plain)
    x = torch.randn(1, WIDTH).bfloat16()
    program = after_passes(model, (x,))
    called = [node for node in program.graph.nodes if node.op == "call_function"]
    (product,) = fused(program)
    assert called[0] is product
    assert product.args[5] is not None
    wide = Together(WIDTH, (256, 64), bias=False).double()
    wide.norm = NormOfGemma(inside).double()
    with torch.no_grad():
        wide.norm.weight.copy_(model.norm.weight)
        for one, other in zip(wide.layers, model.layers, strict=True):
            one.weight.copy_(values_of(other.weight))
    expected = torch.cat(wide(x.double()), -1)
    error = (torch.cat(program.module()(x), -1).double() - expected).norm()
    assert error <= 1.2 * (torch.cat(model(x), -1).double() - expected).norm()


@pytest.mark.parametrize("inside", [False, True])
def test_norms_with_such_factors_are_lowered_whole(inside: bool, tmp_path: Path) -> None:
    plain = Together(WIDTH, (256, 64), bias=False)
    plain.norm = NormOfGemma(inside)
    inputs = (torch.randn(1, WIDTH).bfloat16(),)
    partitioner = CudaPartitioner(target="h100", keep_sources=str(tmp_path))
    lower(quantised(plain), inputs, partitioner=partitioner)
    (wrapper,) = tmp_path.rglob("wrapper.cpp")
    assert "rsqrt" not in wrapper.read_text()


def test_factors_that_are_two_more_than_weights_stay() -> None:
    class Two(NormOfGemma):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) * (self.weight + 2)

    plain = Together(WIDTH, (256, 64), bias=False)
    plain.norm = Two(inside=True)
    model, x = quantised(plain), torch.randn(1, WIDTH).bfloat16()
    program = after_passes(model, (x,))
    assert all(node.args[5] is None for node in fused(program))
    for found, expected in zip(program.module()(x), model(x), strict=True):
        torch.testing.assert_close(found, expected, rtol=0.03, atol=0.03)


@pytest.mark.parametrize("rows", [1, 5])
def test_products_of_the_same_rows_become_one(rows: int) -> None:
    """Of any number of rows, so that two methods hold the same weights."""
    model = quantised(Together(WIDTH, (256, 64, 72, 8), bias=True))
    x = torch.randn(rows, WIDTH).bfloat16()
    program = after_passes(model, (x,))
    sizes = [node.args[1].meta["val"].size(0) * 8 for node in fused(program)]
    assert sizes == [256 + 64 + 72, 8]
    assert [node.args[5] is None for node in fused(program)] == [rows > 1] * 2
    for found, expected in zip(program.module()(x), model(x), strict=True):
        torch.testing.assert_close(found, expected, rtol=0.03, atol=0.03)


def test_biases_that_are_computed_stay_with_their_products() -> None:
    model, x = quantised(ComputedBiases(WIDTH, 64)), torch.randn(1, WIDTH).bfloat16()
    program = after_passes(model, (x,))
    assert len(fused(program)) == 2
    for found, expected in zip(program.module()(x), model(x), strict=True):
        torch.testing.assert_close(found, expected, rtol=0.03, atol=0.03)


def test_any_number_of_rows_goes_to_the_same_op() -> None:
    model, x = block(), torch.randn(5, WIDTH).bfloat16()
    shapes = ({0: Dim("rows", min=1, max=64)},)
    program = after_passes(model, (x,), dynamic_shapes=shapes)
    assert len(fused(program)) == 2
    for rows in (1, 7):
        x = torch.randn(rows, WIDTH).bfloat16()
        torch.testing.assert_close(program.module()(x), model(x), rtol=0.03, atol=0.03)


def test_what_only_looks_alike_stays() -> None:
    model, x = quantised(LooksAlike()), torch.randn(1, WIDTH).bfloat16()
    program = after_passes(model, (x,))
    assert len(fused(program)) == 6
    for node in fused(program):
        assert (node.args[5], node.args[6], node.args[11]) == (None, None, 0)
    for found, expected in zip(program.module()(x), model(x), strict=True):
        torch.testing.assert_close(found, expected, rtol=0.03, atol=0.03)


def test_several_rows_keep_norms_and_residuals_and_share_weights_with_one() -> None:
    several = after_passes(block(), (torch.randn(3, WIDTH).bfloat16(),))
    first, second = fused(several)
    assert [(node.args[5], node.args[6]) for node in (first, second)] == [(None, None)] * 2
    assert [node.args[11] for node in (first, second)] == [1, 0]
    one = after_passes(block(), (torch.randn(1, WIDTH).bfloat16(),))
    for ours, others in zip(fused(several), fused(one), strict=True):
        for here, there in zip(ours.args[1:5], others.args[1:5], strict=True):
            values = constant_of(several, here), constant_of(one, there)
            assert values == (None, None) or torch.equal(*values)


def test_a_lowered_block_calls_the_runtime(tmp_path: Path, contents: Callable[[Path], Any]) -> None:
    path = tmp_path / "model.pte"
    x = torch.randn(1, WIDTH).bfloat16()
    path.write_bytes(lower(block(), (x,), partitioner=CudaPartitioner(target="h100")).buffer)
    (payload,), _, outside = contents(path)
    assert outside == []
    called = [name for name in payload.targets[0].symbols if name.startswith("aoti_torch_cuda_")]
    assert called == ["aoti_torch_cuda_fused_linear"]
