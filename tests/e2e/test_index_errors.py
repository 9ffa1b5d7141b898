"""An index out of range in a tensor that several threads work on is an error, as in a small one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from support import lower
from torch import nn

from aoti_plugins.errors import ProgramError
from aoti_plugins.runtime import Program

COUNT = 40_000  # enough for several threads
ROWS = 50


class Embedding(nn.Module):
    """Reads where the index says, in a parallel loop."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(ROWS, 8)

    def forward(self, index: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return self.table(index) + x[0, 0]


class Gather(nn.Module):
    """Reads from columns where the index says; PyTorch 2.12 counted a negative one from the end."""

    def forward(self, index: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return x.gather(0, index[:, None].expand(-1, 4)) * 2


class IndexAdd(nn.Module):
    """Adds where the index says, in a parallel loop, with atomics."""

    def forward(self, index: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return x.index_add(0, index, x[:1].expand(COUNT, 4))


class ScatterAdd(nn.Module):
    """A kernel of the runtime's."""

    def forward(self, index: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return x.scatter_add(0, index[:, None].expand(-1, 4), x[:1].expand(COUNT, 4) * 2)


class IndexSelect(nn.Module):
    """Eager PyTorch refuses a negative index, which others count from the end."""

    def forward(self, index: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return x.index_select(0, index) * 2


MODELS: tuple[Callable[[], nn.Module], ...] = (Embedding, Gather, IndexAdd, ScatterAdd, IndexSelect)


@pytest.fixture(scope="module", params=MODELS, ids=lambda model: model.__name__)
def case(request: pytest.FixtureRequest) -> Any:
    """A model and its program."""
    model = request.param().eval()
    inputs = (torch.randint(0, ROWS, (COUNT,)), torch.randn(ROWS, 4))
    with Program(lower(model, inputs).buffer) as program:
        yield model, program


@pytest.mark.parametrize("bad", [-1, -ROWS - 1, ROWS, ROWS + 7, 2**40, -(2**40)])
def test_an_index_out_of_range_is_an_error_from_every_thread(case: Any, bad: int) -> None:
    model, program = case
    index, x = torch.randint(0, ROWS, (COUNT,)), torch.randn(ROWS, 4)
    for place in (0, COUNT // 2 + 3, COUNT - 1, slice(None)):
        wrong = index.clone()
        wrong[place] = bad
        with pytest.raises((IndexError, RuntimeError)):
            model(wrong, x)
        with pytest.raises(ProgramError, match=r"out of (bounds|range)"):
            program(wrong, x)
    # The program goes on.
    (found,) = program(index, x)
    torch.testing.assert_close(found, model(index, x), rtol=1e-3, atol=1e-3)
