"""Models with experts, and the numbers by which their places are computed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from support import lower
from torch import nn

from aoti_plugins.runtime import Program

EXPERTS, CHOSEN, WIDTH = 4, 2, 16


class WithNumbers(nn.Module):
    """Integers below zero with numbers that ExecuTorch lifts to tensors, and a number as values."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rounded = [
            torch.div(x, y, rounding_mode=how) for y in (2, -3) for how in ("floor", "trunc")
        ]
        places = torch.zeros(3, 4, dtype=torch.int64)
        places[0] = 7
        places[:, 1] = -2
        return x // 2, x // -2, 7 // x, x % 3, x.fmod(3), x**3, *rounded, places + x[:4]


def test_numbers_are_of_their_dtype_in_divisions_and_views() -> None:
    x = torch.tensor([-7, -3, 3, 7, 5, -5, 1, -1, 2**53 + 1, -(2**53) - 1])
    model = WithNumbers()
    with Program(bytes(lower(model, (x,)).buffer)) as program:
        for found, expected in zip(program(x), model(x), strict=True):
            torch.testing.assert_close(found, expected, rtol=0, atol=0)


@pytest.fixture(scope="module")
def grouped_product() -> Iterator[None]:
    """The op by which transformers exports experts; where it is not imported, one like it."""
    if hasattr(torch.ops.transformers, "grouped_mm_fallback"):
        yield
        return
    with torch.library._scoped_library("transformers", "DEF") as library:
        library.define("grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> Tensor")
        library.impl("grouped_mm_fallback", _products, "CPU")
        library.impl("grouped_mm_fallback", lambda x, w, _: x.new_empty(len(x), w.size(2)), "Meta")
        yield


def _products(x: torch.Tensor, weight: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    bounds = [0, *ends.tolist()]
    groups = zip(bounds, bounds[1:], weight, strict=False)
    return torch.cat([x[start:end] @ matrix for start, end, matrix in groups])


class Experts(nn.Module):
    """Attention, then experts as transformers computes them: sorted by expert, a group for each."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS)
        self.weight = nn.Parameter(torch.randn(EXPERTS, WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = x.unflatten(-1, (2, -1)).transpose(1, 2)
        attended = nn.functional.scaled_dot_product_attention(heads, heads, heads)
        hidden = attended.transpose(1, 2).reshape(-1, WIDTH)
        scores, experts = self.router(hidden).softmax(-1).topk(CHOSEN)
        sorted_, order = experts.flatten().sort()
        counts = torch.histc(sorted_.float(), bins=EXPERTS, min=0, max=EXPERTS - 1)
        ends = counts.cumsum(0, dtype=torch.int32)
        product = torch.ops.transformers.grouped_mm_fallback
        found = product(hidden[order // CHOSEN], self.weight.mT, ends)
        found = found * scores.flatten()[order][:, None]
        back = torch.empty_like(order).index_put((order,), torch.arange(order.size(0)))
        return found[back].unflatten(0, (-1, CHOSEN)).sum(1)


@pytest.mark.parametrize("tokens", [2, 9], ids=["few", "many"])
def test_experts_are_delegated_whole_and_right(grouped_product: None, tokens: int) -> None:
    torch.manual_seed(0)
    model = Experts().eval()
    x = torch.randn(2, tokens, WIDTH)
    lowered = lower(model, (x,))
    (plan,) = lowered.executorch_program.execution_plan
    assert [one.id for one in plan.delegates] == ["AotiCpuBackend"]
    assert not plan.operators
    with Program(bytes(lowered.buffer)) as program, torch.no_grad():
        for _ in range(3):
            x = torch.randn(2, tokens, WIDTH)
            torch.testing.assert_close(program(x)[0], model(x), rtol=1e-4, atol=1e-5)
