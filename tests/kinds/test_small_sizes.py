"""Sizes of 0 and 1, for which ``torch.export`` traces nothing of their own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import size_cases
import torch
from executorch.exir import to_edge_transform_and_lower
from filelock import FileLock
from support import lower
from torch import nn
from torch.export import Dim

from aoti_plugins import CpuPartitioner
from aoti_plugins.errors import ProgramError
from aoti_plugins.runtime import Program


@pytest.fixture(scope="module")
def programs(shared_dir: Path) -> Iterator[Callable[[str], Program]]:
    """The program of a table of constructs, exported with sizes from 0."""
    with ExitStack() as stack:

        @functools.cache
        def loaded(table: str) -> Program:
            path = shared_dir / f"small-sizes-{table}.pte"
            with FileLock(f"{path}.lock"):
                if not path.exists():
                    exported = size_cases.exported(size_cases.TABLES[table])
                    lowered = to_edge_transform_and_lower(exported, partitioner=[CpuPartitioner()])
                    path.write_bytes(lowered.to_executorch().buffer)
            return stack.enter_context(Program(path))

        yield loaded


@pytest.mark.parametrize(("name", "least"), [("empty_too", 0), ("not_empty", 1)])
def test_every_size_is_right(programs: Callable[[str], Program], name: str, least: int) -> None:
    program = programs(name)
    for s, t in size_cases.sizes(least):
        values = size_cases.inputs(s, t)
        size_cases.check(size_cases.TABLES[name], program(*values), values)


@pytest.mark.parametrize(("s", "t"), [(0, 5), (3, 0)])
def test_no_elements_are_refused_where_pytorch_refuses_them(
    programs: Callable[[str], Program], s: int, t: int
) -> None:
    """Neither is memory before the first row read (``x[-1]``), nor a largest of nothing made up."""
    place = r"input 0 has size 0 in dim 0, expected 1 to 8" if s == 0 else r"expected 1 to 6"
    with pytest.raises(ProgramError, match=place):
        programs("not_empty")(*size_cases.inputs(s, t))


class Squeezed(nn.Module):
    """Has other dimensions where the size is 1."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.squeeze(0) * 2


def _first_bounds(model: nn.Module, dim: object) -> tuple[str, str]:
    """Why sizes 0 and 1 are refused for the first dimension; empty where they are not."""
    example = torch.randn(3, 4)
    lowered = lower(model, (example,), dynamic_shapes=({0: dim},))
    reasons = []
    with Program(bytes(lowered.buffer)) as program:
        for size in (0, 1):
            x = torch.randn(size, 4)
            try:
                torch.testing.assert_close(program(x)[0], model(x))
                reasons.append("")
            except ProgramError as error:
                reasons.append(str(error))
    return reasons[0], reasons[1]


def test_a_size_that_changes_the_dimensions_is_refused() -> None:
    empty, one = _first_bounds(Squeezed(), Dim("rows", max=6))
    assert "has size 0 in dim 0, expected 2 to 6" in empty
    assert "has size 1 in dim 0, expected 2 to 6" in one


def test_a_given_lower_bound_holds() -> None:
    empty, one = _first_bounds(nn.ReLU(), Dim("rows", min=1, max=6))
    assert "has size 0 in dim 0, expected 1 to 6" in empty
    assert not one


def test_a_size_without_a_given_bound_may_be_small() -> None:
    """As in PyTorch, whose exported programs run then, though they say 2 and more."""
    assert _first_bounds(nn.ReLU(), Dim.DYNAMIC(max=6)) == ("", "")
