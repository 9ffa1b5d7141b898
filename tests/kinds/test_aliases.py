"""Outputs that share memory with inputs, with constants or with each other."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from support import lower
from torch import nn

from aoti_plugins.runtime import Program


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.register_buffer("rows", torch.arange(6.0).reshape(2, 3))
        self.places = torch.tensor([1, 2, 3])


def test_inputs_and_views_of_them(check: Callable[..., None]) -> None:
    class Views(Model):
        def forward(self, x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, ...]:
            y = self.linear(x)
            return x, y, x, x.view(4, 2), x[0], x.T, x[:, ::2], x.expand(2, 2, 4), n

    check(Views().eval(), torch.randn(2, 4), torch.tensor(3))


def test_one_tensor_twice(check: Callable[..., None]) -> None:
    """Once told apart by the program, and once only by the compiler."""

    class Twice(Model):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            y = self.linear(x)
            return y, y, y + 0, y.T, y.clone(), y.reshape(3, 2), y[:, 1:], y + 0

    check(Twice().eval(), torch.randn(2, 4))


def test_constants(check: Callable[..., None]) -> None:
    class Constants(Model):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            rows = self.rows
            own = (rows, rows.T, rows[1], self.places, self.linear.weight, self.linear.weight.T)
            return self.linear(x), x + 1, *own, torch.tensor([2.5, 1.0]), rows

    check(Constants().eval(), torch.randn(2, 4))


def test_nothing_but_inputs_and_constants(check: Callable[..., None]) -> None:
    class Passes(Model):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return x, self.rows

    check(Passes().eval(), torch.randn(2, 4))


def test_an_input_that_is_written_to() -> None:
    """Its new value comes first among the outputs; the caller's tensor stays as it is."""

    class Add(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
            x.add_(y)
            return x, x * 2

    x, y = torch.zeros(3), torch.tensor([1.0, 2.0, 3.0])
    with Program(bytes(lower(Add(), (torch.ones(3), y)).buffer)) as program:
        for found, expected in zip(program(x, y), (y, y, y * 2), strict=True):
            torch.testing.assert_close(found, expected)


def test_results_are_the_callers(lower_whole: Callable[..., bytes]) -> None:
    """A later call does not change them, though the program returns its input as it is."""
    x = torch.randn(3)
    with Program(lower_whole(lambda x: (x * 2, x.view(3, 1), x), (x,))) as program:
        first = program(x)
        kept = [value.clone() for value in first]
        program(torch.zeros(3))
        x.zero_()
        for value, expected in zip(first, kept, strict=True):
            torch.testing.assert_close(value, expected)


HIDDEN_VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "meshgrid": lambda x: torch.meshgrid(x, x, indexing="xy")[0],
    "type_as": lambda x: x.type_as(torch.ones(1)),
    "einsum": lambda x: torch.einsum("i...->...i", x),
    "atleast_2d": torch.atleast_2d,
    "broadcast_tensors": lambda x: torch.broadcast_tensors(x, torch.ones(2, 3))[0],
    "dropout": nn.Dropout().eval(),
    "dropout by name": lambda x: torch.dropout(input=x, p=0.5, train=False),
}


@pytest.mark.parametrize("name", HIDDEN_VIEWS)
def test_what_is_written_to_is_seen_through_views_that_do_not_say_so(
    name: str, check: Callable[..., None]
) -> None:
    """Found by a random module with ``meshgrid``: PyTorch makes programs functional op by op."""

    class Written(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            own = x * 2
            view = HIDDEN_VIEWS[name](own)
            own[0] = -own[0]
            before = view + 1
            if view.numel() == own.numel():  # else several elements are one
                view[..., 1] = 7
            return before, own, view.contiguous()

    check(Written().eval(), torch.tensor([1.0, 2.0, 3.0]))


def test_results_of_sizes_that_only_a_call_knows_are_no_views(check: Callable[..., None]) -> None:
    class Found(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            own = x * 2
            own[0] = 5
            (places,) = torch.where(own > 0)
            return own, places

    check(Found().eval(), torch.tensor([-1.0, 2.0, -3.0, 4.0]))
