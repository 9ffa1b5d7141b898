"""Products with what stands around them: recognised, equal, lowered."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from small_weight_cases import values_of
from support import lower
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export
from torchao.quantization import IntxWeightOnlyConfig, quantize_
from torchao.quantization.granularity import PerGroup

from aoti_plugins import CudaPartitioner
from aoti_plugins.cuda.passes.fused_linears import fused_linears
from aoti_plugins.cuda.passes.small_weights import small_weights
from aoti_plugins.lowering.program_constants import constant_of

WIDTH, HIDDEN = 256, 512
FUSED = "aoti_plugins.fused_linear.default"


class Norm(nn.Module):
    """A root-mean-square norm as models of transformers write it."""

    def __init__(self, inside: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(WIDTH) + 0.5)
        self.inside = inside

    def forward(self, x: Tensor) -> Tensor:
        rows = x.float()
        rows = rows * torch.rsqrt(rows.pow(2).mean(-1, keepdim=True) + 1e-5)
        return (rows * self.weight).to(x.dtype) if self.inside else self.weight * rows.to(x.dtype)


class Block(nn.Module):
    """What one layer of a language model does, without attention."""

    def __init__(self, *, joined: bool, inside: bool, activation: nn.Module) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.norm = Norm(inside)
        self.activation = activation
        if joined:
            self.gate_up = nn.Linear(WIDTH, 2 * HIDDEN, bias=False)
        else:
            self.gate, self.up = nn.Linear(WIDTH, HIDDEN), nn.Linear(WIDTH, HIDDEN)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        normed = self.norm(x)
        if hasattr(self, "gate_up"):
            first, second = self.gate_up(normed).chunk(2, -1)
        else:
            first, second = self.gate(normed), self.up(normed)
        return x + self.down(self.activation(first) * second)


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
    program = export(model, inputs, **kwargs).run_decompositions({})
    for node in list(program.graph.nodes):
        if node.target is torch.ops.aten._assert_tensor_metadata.default:  # not ExecuTorch's
            program.graph.erase_node(node)
    small_weights(program)
    fused_linears(program)
    return program


def exact(model: nn.Module, **kwargs: Any) -> nn.Module:
    """A block of the weights that codes stand for, in float64."""
    plain = Block(**kwargs).double()
    with torch.no_grad():
        for one, other in zip(plain.modules(), model.modules(), strict=True):
            if isinstance(one, nn.Linear):
                one.weight.copy_(values_of(other.weight))
                if other.bias is not None:
                    one.bias.copy_(other.bias)
            elif isinstance(one, Norm):
                one.weight.copy_(other.weight)
    return plain


ACTIVATIONS = {"silu": nn.SiLU(), "gelu": nn.GELU(), "gelu, tanh": nn.GELU(approximate="tanh")}


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
    expected = exact(model, **options)(x.double())
    error = (program.module()(x).double() - expected).norm()
    assert error <= 1.05 * (model(x).double() - expected).norm()


def test_any_number_of_rows_goes_to_the_same_op() -> None:
    model, x = block(), torch.randn(5, WIDTH).bfloat16()
    shapes = ({0: Dim("rows", min=1, max=64)},)
    program = after_passes(model, (x,), dynamic_shapes=shapes)
    assert len(fused(program)) == 2
    for rows in (1, 7):
        x = torch.randn(rows, WIDTH).bfloat16()
        torch.testing.assert_close(program.module()(x), model(x), rtol=0.03, atol=0.03)


class Other(nn.Module):
    """Looks like a block's parts and is none of them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.product = nn.Linear(WIDTH, WIDTH, bias=False)
        self.factors = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        rows = x.float()
        over_rows = rows * torch.rsqrt(rows.pow(2).mean(0, keepdim=True) + 1e-5)
        cubes = rows * torch.rsqrt(rows.pow(4).mean(-1, keepdim=True) + 1e-5)
        read_twice = self.product(x)
        first, second = self.product(x + 1).chunk(2, -1)
        return (
            self.product(over_rows.to(x.dtype) * self.factors),
            self.product(cubes.to(x.dtype) * self.factors),
            read_twice + x,
            read_twice,
            torch.nn.functional.silu(second) * first,
            self.product(x + 2) + x[..., :1],
            torch.add(x, self.product(x + 3), alpha=2),
        )


def test_what_only_looks_alike_stays() -> None:
    model, x = quantised(Other()), torch.randn(1, WIDTH).bfloat16()
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
