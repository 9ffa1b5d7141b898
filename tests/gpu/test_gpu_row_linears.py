"""Products of one row with weights of 16 bits on a GPU: as exact as PyTorch's."""

from __future__ import annotations

import copy

import pytest
import torch
from decoder_blocks import Block, Together
from executorch.exir import to_edge_transform_and_lower
from torch import nn
from torch.export import export

from aoti_plugins import CudaPartitioner
from aoti_plugins.lowering.layers import short_program
from aoti_plugins.runtime import Program

pytestmark = pytest.mark.gpu


def _check(model: nn.Module, width: int, dtype: torch.dtype, graphs: bool) -> None:
    torch.manual_seed(1)
    model = model.to(dtype).eval()
    plain = copy.deepcopy(model).cuda()
    exact = copy.deepcopy(plain).double()
    options = {"AotiCudaBackend": {"cuda_graphs": graphs}}
    with Program(_lowered(model, torch.randn(1, width).to(dtype))) as program:
        method = program.method(options=options)
        for _ in range(5):
            x = torch.randn(1, width, device="cuda").to(dtype)
            with torch.no_grad():
                expected, usual = exact(x.double()), plain(x).double()
            (found,) = method(x)
            error = (found.double() - expected).norm()
            assert error <= 1.05 * (usual - expected).norm() + 1e-9


def _lowered(model: nn.Module, x: torch.Tensor) -> bytes:
    edge = to_edge_transform_and_lower(export(model, (x,)), partitioner=[CudaPartitioner()])
    return bytes(edge.to_executorch().buffer)


@pytest.mark.parametrize("graphs", [False, True])
@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize(
    ("width", "hidden"), [(2048, 8192), (4096, 14336), (1056, 4232), (512, 1024)]
)
def test_blocks(width: int, hidden: int, joined: bool, graphs: bool) -> None:
    block = Block(
        joined=joined,
        inside=False,
        activation=nn.SiLU(),
        bias=False,
        width=width,
        hidden=hidden,
    )
    _check(block, width, torch.bfloat16, graphs)


def test_blocks_of_which_the_code_is_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as ``tests/lowering/test_loops.py`` has, whose wrapper it looks at."""
    torch.manual_seed(1)
    options = {"joined": True, "inside": False, "bias": False, "width": 256, "hidden": 2048}
    count = short_program.LEAST + 2
    model = nn.Sequential(*(Block(activation=nn.SiLU(), **options) for _ in range(count)))
    model = model.to(torch.bfloat16).eval()
    x = torch.randn(1, 256).to(torch.bfloat16)
    with_loop = _lowered(model, x)
    monkeypatch.setattr(short_program, "LEAST", count + 1)
    whole = _lowered(model, x)
    assert len(with_loop) < len(whole)
    expected = _outputs(whole, x.cuda(), graphs=False)
    assert torch.equal(_outputs(with_loop, x.cuda(), graphs=False), expected)
    assert torch.equal(_outputs(with_loop, x.cuda(), graphs=True), expected)


def _outputs(program: bytes, x: torch.Tensor, graphs: bool) -> torch.Tensor:
    options = {"AotiCudaBackend": {"cuda_graphs": graphs}}
    with Program(program) as opened:
        method = opened.method(options=options)
        return torch.stack([method(factor * x)[0].cpu() for factor in (1, 2, 3)])


class Sum(nn.Module):
    """The results of several products of one row, one behind the other."""

    def __init__(self, width: int, columns: tuple[int, ...]) -> None:
        super().__init__()
        self.parts = Together(width, columns, bias=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat(self.parts(x), -1)


def test_products_of_the_same_row() -> None:
    _check(Sum(2048, (2048, 515, 1029)), 2048, torch.bfloat16, graphs=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    ("k", "n"), [(32, 40000), (64, 9001), (2048, 3072), (9216, 300), (28672, 64), (2048, 128256)]
)
def test_layers(k: int, n: int, dtype: torch.dtype) -> None:
    _check(nn.Linear(k, n), k, dtype, graphs=True)
