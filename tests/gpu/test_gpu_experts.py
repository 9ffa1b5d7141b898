"""Experts with weights of 4 and 8 bits on a GPU: as exact as those of 16 bits."""

from __future__ import annotations

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from expert_blocks import CHOSEN, EXPERTS, WIDTH, Experts, Fused, Given, Normed
from torch import Tensor
from torch.export import Dim, export

from aoti_plugins import CudaPartitioner
from aoti_plugins.runtime import Program

pytestmark = pytest.mark.gpu

MOST = 200


def inputs(count: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Rows, experts and shares of so many tokens; some have the same expert twice."""
    return (
        torch.randn(count, WIDTH, dtype=dtype),
        torch.randint(0, EXPERTS, (count, CHOSEN)),
        torch.rand(count, CHOSEN, dtype=dtype),
    )


def lowered(model: torch.nn.Module, given: tuple[Tensor, ...], dynamic: bool = False) -> Program:
    tokens = Dim("tokens", max=MOST)
    shapes = tuple({0: tokens} for _ in given) if dynamic else None
    edge = to_edge_transform_and_lower(
        export(model, given, dynamic_shapes=shapes), partitioner=[CudaPartitioner()]
    )
    return Program(bytes(edge.to_executorch().buffer))


def check(model: Given, program: Program, count: int, dtype: torch.dtype) -> None:
    for seed in range(3):
        torch.manual_seed(seed)
        given = inputs(count, dtype)
        with torch.no_grad():
            exact = model.exact(*given)
            usual = (model(*given).double() - exact).norm()
        (found,) = program(*(one.cuda() for one in given))
        assert (found.double().cpu() - exact).norm() <= 1.2 * usual, count


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("bits", [4, 8, None])
def test_one_token(bits: int | None, dtype: torch.dtype) -> None:
    model = Given(bits, dtype)
    with lowered(model, inputs(1, dtype)) as program:
        check(model, program, 1, dtype)


@pytest.mark.parametrize("bits", [4, 8])
def test_any_number_of_tokens(bits: int) -> None:
    model, dtype = Given(bits), torch.bfloat16
    with lowered(model, inputs(3, dtype), dynamic=True) as program:
        for count in (1, 2, 7, 64, MOST):
            check(model, program, count, dtype)


@pytest.mark.parametrize("implementation", ["batched_mm", "grouped_mm"])
def test_a_router_chooses(implementation: str) -> None:
    model = Experts(implementation=implementation)
    torch.manual_seed(2)
    x = torch.randn(1, 1, WIDTH).bfloat16()
    with lowered(model, (x,)) as program, torch.no_grad():
        (found,) = program(x.cuda())
        torch.testing.assert_close(found.cpu(), model(x), rtol=0.02, atol=0.02)


def test_each_call_has_the_experts_of_its_token() -> None:
    """The second product fetches early, but never by the numbers of the call before."""
    model, more = Normed(), torch.zeros(1, dtype=torch.bfloat16)
    torch.manual_seed(5)
    tokens = [torch.randn(1, 1, WIDTH).bfloat16() for _ in range(60)]
    tokens = [x for x in tokens if model.margin(x) > 0.05]  # rounding changes no choice
    assert len(tokens) > 20
    with lowered(model, (tokens[0], more)) as program, torch.no_grad():
        for graphs in (False, True):
            options = {"AotiCudaBackend": {"cuda_graphs": graphs}}
            method = program.method(options=options)
            for x in tokens:
                (found,) = method(x.cuda(), more.cuda())
                torch.testing.assert_close(found.cpu(), model(x, more), rtol=0.02, atol=0.02)


@pytest.mark.parametrize("count", [1, 40])
def test_upstreams_op_gives_what_its_kernels_give(count: int) -> None:
    model = Fused("fused_moe")
    torch.manual_seed(3)
    given = inputs(count, torch.bfloat16)
    given = (*given[:2], given[2].float())
    exact = model.exact(*given)
    on_gpu = tuple(one.cuda() for one in given)
    with lowered(model, given) as program, torch.no_grad():
        (found,) = program(*on_gpu)
        usual = (model.cuda()(*on_gpu).double().cpu() - exact).norm()
    assert (found.double().cpu() - exact).norm() <= 1.2 * usual
