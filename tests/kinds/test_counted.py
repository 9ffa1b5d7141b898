"""Results whose sizes the data decides are computed by the delegate, in eager PyTorch's order."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from support import older_than
from torch import nn
from torch.export import Dim, ExportedProgram, export
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils import _pytree as pytree

from aoti_plugins import CpuPartitioner
from aoti_plugins.errors import ProgramError
from aoti_plugins.runtime import Program

Programs = Callable[[str], Program]


class Chosen(nn.Module):
    """Every way to choose by truth values, alone and as part of more."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rows, columns = mask.any(1), mask[0]
        return (
            torch.nonzero(mask),
            torch.argwhere(x > 0),
            *torch.where(mask),
            x[mask] * 2,
            torch.masked_select(x, mask),
            torch.masked_select(x, rows[:, None]),
            x[rows],
            x[rows, 2:4].relu(),
            x[:, columns].sum(1),
            x[rows][:, 1] + rows.nonzero()[:, 0],
        )


class Following(nn.Module):
    """Results of which the next op chooses again, or which go together."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        mask = x > 0
        first = x[mask]
        second = first[first > 0.5]
        places = torch.nonzero(mask)
        return (
            first * y[mask] + 1,
            second,
            second.sum() + first.numel(),
            places[:, 1] - places[:, 0],
            torch.zeros_like(x).index_put((places[:, 0], places[:, 1]), first),
            x.index_put((mask,), y[mask]),
        )


class OfDtypes(nn.Module):
    """What is not zero, of tensors of several dtypes."""

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(
            one for x in tensors for one in (torch.nonzero(x), torch.masked_select(x, x != 0))
        )


class OfSmall(nn.Module):
    """Tensors of no dims, of one element, and of many dims."""

    def forward(self, x: torch.Tensor, one: torch.Tensor, many: torch.Tensor) -> tuple[Any, ...]:
        return (
            torch.nonzero(x),
            torch.masked_select(x, x > 0),
            torch.nonzero(one),
            torch.nonzero(many),
            many[many > 0],
        )


class OfAnySize(nn.Module):
    """Inputs whose sizes are dynamic."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        mask = x > 0
        return torch.nonzero(x), x[mask], torch.nonzero(mask.any(1)), y[y != 0] + y.size(0)


class Repeated(nn.Module):
    """Slices, each as often as a tensor says."""

    def forward(self, x: torch.Tensor, repeats: torch.Tensor) -> tuple[torch.Tensor, ...]:
        slices = torch.repeat_interleave(x, repeats, 0)
        torch._check(slices.size(0) <= 64)
        every = torch.repeat_interleave(x[:, 0], repeats[:1] + 1)
        torch._check(every.size(0) <= 512)
        return slices, every, torch.repeat_interleave(x, repeats, 1, output_size=x.size(0)).sum(0)


class Between(nn.Module):
    """Sizes that one delegate decides and others use: cdist stays outside."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        chosen = x[x[:, 0] > 0] * 2
        torch._check(chosen.size(0) > 0)  # or cdist cannot be exported
        distances = torch.cdist(chosen, x, 1.0)
        return chosen, distances + 1, distances.sum(1) + chosen[:, 0]


class Limited(nn.Module):
    """Refuses more than three."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = x[x > 0]
        torch._check(found.size(0) <= 3)
        return found + 1


def _exported(method: str) -> ExportedProgram:
    rows, columns, length = Dim("rows", max=20), Dim("columns", max=9), Dim("length", max=2000)
    torch.manual_seed(0)
    x = torch.randn(4, 6)
    made: dict[str, Callable[[], ExportedProgram]] = {
        "chosen": lambda: export(Chosen(), (x, x > 0)),
        "following": lambda: export(Following(), (x, x + 1)),
        "of_dtypes": lambda: export(OfDtypes(), tuple((x * 3).to(dtype) for dtype in DTYPES)),
        "of_small": lambda: export(OfSmall(), (x[0, 0], x[:1, :1], torch.randn(2, 3, 4, 5))),
        "of_any_size": lambda: export(
            OfAnySize(),
            (x, torch.randn(30)),
            dynamic_shapes=({0: rows, 1: columns}, {0: length}),
        ),
        "repeated": lambda: export(Repeated(), (torch.randn(5, 5), torch.tensor([1, 0, 2, 0, 2]))),
        "between": lambda: export(Between(), (x,)),
        "limited": lambda: export(Limited(), (x,)),
    }
    return made[method]()


DTYPES = (torch.bool, torch.uint8, torch.int32, torch.int64, torch.float16, torch.float64)


@pytest.fixture(scope="module")
def programs() -> Iterator[Programs]:
    """The program of each method, lowered when a test asks for it."""
    with ExitStack() as stack:

        @functools.cache
        def loaded(method: str) -> Program:
            edge = to_edge_transform_and_lower(_exported(method), partitioner=[CpuPartitioner()])
            lowered = edge.to_executorch()
            (plan,) = lowered.executorch_program.execution_plan
            outside = ["aten::_cdist_forward"] if method == "between" else []
            assert [op.name for op in plan.operators] == outside
            return stack.enter_context(Program(bytes(lowered.buffer)))

        yield loaded


def _check(program: Program, model: nn.Module, *inputs: torch.Tensor) -> None:
    expected = pytree.tree_leaves(model(*inputs))
    found = program(*inputs)
    assert len(found) == len(expected)
    for index, (one, other) in enumerate(zip(found, expected, strict=True)):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one, other, msg=lambda text, i=index: f"output {i}: {text}")


MASKS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "some": lambda x: x > 0,
    "none": lambda x: torch.zeros_like(x, dtype=torch.bool),
    "all": lambda x: torch.ones_like(x, dtype=torch.bool),
    "the last": lambda x: torch.arange(24).view(4, 6) == 23,
    "every other": lambda x: torch.arange(24).view(4, 6) % 2 == 0,
}


@pytest.mark.parametrize("which", MASKS)
def test_chosen(programs: Programs, which: str) -> None:
    x = torch.randn(4, 6)
    _check(programs("chosen"), Chosen(), x, MASKS[which](x))


def test_sizes_grow_and_shrink(programs: Programs) -> None:
    x = torch.randn(4, 6)
    for which in ("all", "none", "some", "all"):
        _check(programs("chosen"), Chosen(), x, MASKS[which](x))


@pytest.mark.parametrize("shift", [0, -9, 9])
def test_what_was_chosen_decides_again(programs: Programs, shift: int) -> None:
    _check(programs("following"), Following(), torch.randn(4, 6) + shift, torch.randn(4, 6))


@pytest.mark.parametrize("factor", [3, 0])
def test_dtypes(programs: Programs, factor: int) -> None:
    inputs = [(torch.randn(4, 6).abs() * factor).to(dtype) for dtype in DTYPES]
    _check(programs("of_dtypes"), OfDtypes(), *inputs)


@pytest.mark.parametrize("value", [-1.0, 0.0, 2.0, math.nan])
def test_few_elements_and_many_dims(programs: Programs, value: float) -> None:
    x = torch.tensor(value)
    _check(programs("of_small"), OfSmall(), x, x.view(1, 1), torch.randn(2, 3, 4, 5))


@pytest.mark.parametrize(
    ("rows", "columns", "length"), [(4, 6, 30), (20, 9, 2000), (2, 2, 2), (3, 7, 1999)]
)
def test_dynamic_shapes(programs: Programs, rows: int, columns: int, length: int) -> None:
    y = torch.randn(length) * (torch.rand(length) < 0.5)
    _check(programs("of_any_size"), OfAnySize(), torch.randn(rows, columns), y)


@pytest.mark.parametrize("repeats", [[1, 0, 2, 0, 2], [0, 0, 0, 0, 5], [1, 1, 1, 1, 1]])
def test_repeated(programs: Programs, repeats: list[int]) -> None:
    _check(programs("repeated"), Repeated(), torch.randn(5, 5), torch.tensor(repeats))


def test_between_delegates(programs: Programs) -> None:
    for shift in (0, 5, 0):
        x = torch.randn(4, 6) + shift
        x[2, 0] = 1.0  # at least one row is chosen
        _check(programs("between"), Between(), x)


def test_what_a_model_checks_is_checked(programs: Programs) -> None:
    x = torch.full((4, 6), -1.0)
    x[0, 1] = x[3, 5] = 1.0
    _check(programs("limited"), Limited(), x)
    # Models of PyTorch before 2.13 print the reason and keep it to themselves.
    reason = "gives no reason" if older_than(2, 13) else "Expected .* <= 3"
    with pytest.raises(ProgramError, match=reason):
        programs("limited")(-x)
    _check(programs("limited"), Limited(), x)


def _lower(model: nn.Module, *inputs: torch.Tensor) -> None:
    edge = to_edge_transform_and_lower(export(model, inputs), partitioner=[CpuPartitioner()])
    edge.to_executorch()


class Columns(nn.Module):
    """Chosen columns, returned."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, x[0] > 0]


class Unbounded(nn.Module):
    """Any number of repetitions."""

    def forward(self, x: torch.Tensor, repeats: torch.Tensor) -> torch.Tensor:
        return torch.repeat_interleave(x, repeats)


def test_what_executorch_refuses() -> None:
    """Limits of its own: when it plans the memory of a program's results."""
    with pytest.raises(GuardOnDataDependentSymNode, match=r"exir/tensor\.py"):
        _lower(Columns(), torch.randn(4, 6))
    with pytest.raises(RuntimeError, match="Cannot evaluate a finite upper bound"):
        _lower(Unbounded(), torch.randn(3), torch.tensor([1, 2, 3]))
