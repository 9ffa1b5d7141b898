"""Equal whole numbers of a model are computed once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.export import ExportedProgram

from aoti_plugins.lowering.passes.equal_numbers import equal_numbers

POSITION = torch.tensor([3])


def merged(function: Callable[..., object], *inputs: torch.Tensor) -> ExportedProgram:
    class Model(nn.Module):
        def forward(self, *x: torch.Tensor) -> object:
            return function(*x)

    program = torch.export.export(Model(), inputs).run_decompositions({})
    expected = Model()(*inputs)
    equal_numbers(program)
    torch.testing.assert_close(program.module()(*inputs), expected)
    return program


def ops(program: ExportedProgram) -> Counter[str]:
    return Counter(str(n.target) for n in program.graph.nodes if n.op == "call_function")


def test_a_chain_is_merged() -> None:
    def layer(position: torch.Tensor) -> torch.Tensor:
        return (torch.arange(5) + position[0].clone() < 6).float()

    program = merged(lambda position: layer(position) + 2 * layer(position), POSITION)
    found = ops(program)
    assert found["aten.arange.start_step"] + found["aten.arange.default"] == 1
    assert found["aten.clone.default"] == found["aten.lt.Scalar"] == 1
    assert found["aten._to_copy.default"] == 2  # floating-point values stay


@pytest.mark.parametrize("pair", [(1, True), (1, 1.0), (1, 2)])
def test_other_arguments_are_others(pair: tuple[object, object]) -> None:
    full = torch.ops.aten.full_like.default

    def both(x: torch.Tensor) -> torch.Tensor:
        return (full(x, pair[0]).float() + full(x, pair[1])).sum()

    assert ops(merged(both, POSITION))["aten.full_like.default"] == 2


def test_results_stay_apart() -> None:
    """A program returns each of them in memory of its own."""
    program = merged(lambda x: (x + 1, x + 1), POSITION)
    assert ops(program)["aten.add.Tensor"] == 2


def test_random_numbers_are_drawn_each_time() -> None:
    program = torch.export.export(
        _Drawn(), (torch.zeros(64, dtype=torch.int64),)
    ).run_decompositions({})
    equal_numbers(program)
    assert ops(program)["aten.randint_like.default"] == 2


class _Drawn(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (torch.randint_like(x, 9) - torch.randint_like(x, 9)).float()


def test_what_is_written_to_stays_apart() -> None:
    """An op that writes to its argument does not write to that of others."""
    with torch.library._scoped_library("equal_numbers_test", "FRAGMENT") as library:
        library.define("next_(Tensor(a!) x) -> ()")
        library.impl("next_", lambda x: x.add_(1) and None, "CPU")
        library.impl("next_", lambda x: None, "Meta")

        program = torch.export.export(_Twice(), (POSITION,))
        equal_numbers(program)
        assert ops(program)["aten.mul.Tensor"] == 2

        again = torch.export.export(_ReadAgain(), (POSITION,))
        equal_numbers(again)
        assert ops(again)["aten.mul.Tensor"] == 2


class _ReadAgain(nn.Module):
    """Two products with what an op has written to in between."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        before = (x * 2).float()
        torch.ops.equal_numbers_test.next_(x)
        return before - (x * 2).float()


class _Twice(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second = x * 2, x * 2
        torch.ops.equal_numbers_test.next_(first)
        return (first - second).float()
