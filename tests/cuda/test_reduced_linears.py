"""Products that are reduced over ranks: one op where they are large, lowered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from decoder_blocks import as_pipeline_has_it
from support import lower
from torch import Tensor, nn
from torch.export import Dim

import aoti_plugins.parallel.ops  # noqa: F401 -- registers all_reduce
from aoti_plugins import CudaPartitioner
from aoti_plugins.cuda.passes.reduced_linears import reduced_linears
from aoti_plugins.payload import PayloadFlag

K, N = 64, 1024
LEAST = (4 << 20) // (2 * N)
"""Rows whose products are 4 MiB."""

OP = "aoti_plugins.linear_all_reduce.default"


class Reduced(nn.Module):
    def __init__(
        self,
        bias: bool = False,
        twice: bool = False,
        constant: bool = True,
        residual: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.linear = nn.Linear(K, N, bias)
        self.twice = twice
        self.constant = constant
        self.residual = residual

    def forward(self, x: Tensor) -> Tensor:
        weight = self.linear.weight if self.constant else self.linear.weight * x[0, 0]
        product = nn.functional.linear(x, weight, self.linear.bias)
        found = torch.ops.aoti_plugins.all_reduce(product, 0, 2, 2, 1)
        if self.residual is not None:
            return self.residual + found
        return found + product if self.twice else found


def model(dtype: torch.dtype = torch.bfloat16, **kwargs: Any) -> nn.Module:
    return Reduced(**kwargs).to(dtype).eval().requires_grad_(False)


def targets(module: nn.Module, rows: int, dynamic: Any = None, **options: Any) -> list[str]:
    x = torch.randn(rows, K, dtype=next(module.parameters()).dtype)
    shapes = {} if dynamic is None else {"dynamic_shapes": ({0: dynamic},)}
    program = as_pipeline_has_it(module, (x,), **shapes)
    reduced_linears(program, **options)
    return [str(node.target) for node in program.graph.nodes if node.op == "call_function"]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_large_product_becomes_one_op(dtype: torch.dtype) -> None:
    assert targets(model(dtype), LEAST) == [OP]


@pytest.mark.parametrize("dim", [Dim.DYNAMIC, Dim("rows", max=LEAST)])
def test_rows_that_may_be_many(dim: Any) -> None:
    assert targets(model(), 40, dim)[-1] == OP


@pytest.mark.parametrize(
    ("changed", "rows"),
    [
        ({"bias": True}, LEAST),
        ({"twice": True}, LEAST),
        ({"constant": False}, LEAST),
        ({"dtype": torch.float32}, LEAST),
        ({}, LEAST - 1),
    ],
)
def test_what_stays_as_it_is(changed: dict[str, Any], rows: int) -> None:
    found = targets(model(**changed), rows)
    assert OP not in found
    assert "aoti_plugins.all_reduce.default" in found


def test_a_residual() -> None:
    assert targets(model(residual=torch.ones(5, N, dtype=torch.bfloat16)), 5)[-1] == OP
    row = model(residual=torch.ones(1, N, dtype=torch.bfloat16))
    assert targets(row, 1)[-1] == OP
    apart = ["aoti_plugins.all_reduce.default", "aten.add.Tensor"]
    assert targets(row, 1, has_row_kernel=False)[-2:] == apart
    assert targets(model(residual=torch.ones(2, N, dtype=torch.bfloat16)), 2)[-2:] == apart
    vector = targets(model(residual=torch.ones(N, dtype=torch.bfloat16)), 5)
    assert vector[-2:] == apart


def test_a_weight_of_one_dim() -> None:
    class Vector(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(K, dtype=torch.bfloat16), False)

        def forward(self, x: Tensor) -> Tensor:
            product = nn.functional.linear(x, self.weight)
            return torch.ops.aoti_plugins.all_reduce(product, 0, 2, 2, 1)

    assert OP not in targets(Vector().eval(), LEAST)


def test_rows_that_cannot_be_many() -> None:
    assert OP not in targets(model(), 40, Dim("rows", max=LEAST - 1))


@pytest.fixture
def a_process_group() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("a_process_group")
def test_the_op_in_pytorch() -> None:
    import aoti_plugins.cuda.linear_all_reduce  # noqa: F401 -- registers it

    x, weight = torch.randn(2, 3, K), torch.randn(N, K)
    product = nn.functional.linear(x, weight)
    op = torch.ops.aoti_plugins.linear_all_reduce
    assert torch.equal(op(x, weight, None, 0, 1, 1, 1), product)
    assert torch.equal(op(x, weight, product, 0, 1, 1, 1), 2 * product)


def test_a_program_calls_it(tmp_path: Path, contents: Callable[[Path], Any]) -> None:
    path = tmp_path / "model.pte"
    partitioner = CudaPartitioner(target="h100", cuda_graphs=True)
    inputs, sizes = (torch.randn(40, K).bfloat16(),), ({0: Dim("rows", max=4096)},)
    program = lower(model(), inputs, dynamic_shapes=sizes, partitioner=partitioner)
    path.write_bytes(program.buffer)
    (payload,), _, outside = contents(path)
    assert outside == []
    assert "aoti_torch_cuda_linear_all_reduce" in payload.targets[0].symbols
    assert PayloadFlag.RANKS in payload.flags
