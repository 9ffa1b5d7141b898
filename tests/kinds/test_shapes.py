"""Sizes that are known only when a program runs: bounded ones, and those that data decides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from support import older_than
from torch import nn
from torch.export import Dim, export

from aoti_plugins import CpuPartitioner
from aoti_plugins.errors import ProgramError
from aoti_plugins.runtime import Program


class Related(nn.Module):
    """Two dynamic sizes, one of which both inputs have; outputs of other sizes, and numbers."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[Any, ...]:
        product = torch.cat([x, x * 2], 1) @ torch.cat([y, y], 0)
        return product, torch.outer(x[0], y[:, 0]).flatten(), x.shape[0] * 2, x.shape[1]


class Beginning(nn.Module):
    """As many rows as a tensor says, for two delegates: cdist stays outside."""

    def forward(self, x: torch.Tensor, count: torch.Tensor) -> tuple[torch.Tensor, ...]:
        n = count.item()
        torch._check(n >= 1)
        torch._check(n <= 8)
        first = x[:n] * 2
        distances = torch.cdist(first, first)
        return first, torch.arange(n) + 1, torch.ones(n, 2) + distances.sum() + x[0]


class Number(nn.Module):
    """Takes a number and is exported so that it may be any."""

    def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
        return x * n


@pytest.fixture(scope="module")
def program() -> Iterator[Program]:
    rows, columns = Dim("rows", min=1, max=8), Dim("columns", min=3, max=6)
    programs = {
        "related": export(
            Related(),
            (torch.randn(3, 5), torch.randn(5, 4)),
            dynamic_shapes=({0: rows, 1: columns}, {0: columns}),
        ),
        "beginning": export(Beginning(), (torch.randn(8, 2), torch.tensor(4))),
        "number": export(Number(), (torch.randn(3), 3), dynamic_shapes=(None, Dim.DYNAMIC)),
    }
    edge = to_edge_transform_and_lower(programs, partitioner=[CpuPartitioner()])
    with Program(bytes(edge.to_executorch().buffer)) as loaded:
        yield loaded


@pytest.mark.parametrize("rows", [1, 2, 3, 8])
@pytest.mark.parametrize("columns", [3, 6])
def test_outputs_have_the_sizes_of_this_call(program: Program, rows: int, columns: int) -> None:
    x, y = torch.randn(rows, columns), torch.randn(columns, 4)
    found = program.method("related")(x, y)
    torch.testing.assert_close(found, Related()(x, y), rtol=1e-4, atol=1e-5)


def test_sizes_grow_and_shrink(program: Program) -> None:
    method = program.method("related")
    for rows, columns in ((8, 6), (1, 3), (5, 4), (8, 6)):
        x, y = torch.randn(rows, columns), torch.randn(columns, 4)
        torch.testing.assert_close(method(x, y), Related()(x, y), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ((9, 5), (5, 4), r"found shape \[9, 5\], expected at most 8 in dimension 0"),
        ((3, 7), (7, 4), "expected at most 6 in dimension 1"),
        ((0, 5), (5, 4), "input 0 has size 0 in dim 0, expected 1 to 8"),
        ((3, 2), (2, 4), "input 0 has size 2 in dim 1, expected 3 to 6"),
        ((3, 5), (5, 3), "input 1 has size"),
        ((3, 5), (5,), r"found shape \[5\], expected 2 dimensions"),
    ],
    ids=["above", "above the other", "below", "below the other", "static", "rank"],
)
def test_sizes_out_of_bounds_are_refused(
    program: Program, x: tuple[int, ...], y: tuple[int, ...], message: str
) -> None:
    method = program.method("related")
    with pytest.raises(ProgramError, match=message):
        method(torch.randn(x), torch.randn(y))
    good = (torch.randn(3, 5), torch.randn(5, 4))
    torch.testing.assert_close(method(*good), Related()(*good), rtol=1e-4, atol=1e-5)


def test_sizes_that_do_not_go_together_are_refused(program: Program) -> None:
    message = "input 1 has size 4 in dim 0, expected 5, which follows"
    if older_than(2, 13):
        message = "gives no reason"  # its models print the reason and keep it to themselves
    with pytest.raises(ProgramError, match=message):
        program.method("related")(torch.randn(3, 5), torch.randn(4, 4))


def test_data_decides_a_size(program: Program) -> None:
    method = program.method("beginning")
    x = torch.randn(8, 2)
    for count in (1, 4, 8):
        expected = Beginning()(x, torch.tensor(count))
        found = method(x, torch.tensor(count))
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_a_number_as_input_is_executorchs_limit(program: Program) -> None:
    """ExecuTorch stores an input that is no tensor as none; so there is no way to give it."""
    method = program.method("number")
    assert [info.kind for info in method.inputs] == ["tensor", "none"]
    with pytest.raises(ProgramError) as caught:
        method(torch.randn(3), 3)
    for words in ("input 1", "found an int", "tensor of one element", ".item()"):
        assert words in str(caught.value)
