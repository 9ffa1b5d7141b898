"""Ops that Inductor generates by themselves and not in a graph, and ops that are excluded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import pytest
import torch
from support import lower
from torch._inductor import ir, lowering

from aoti_plugins import CpuPartitioner
from aoti_plugins.errors import LoweringError
from aoti_plugins.runtime import Program


@pytest.fixture(scope="module")
def twice() -> Iterator[Any]:
    """An op, ``2 * x``; defined once, since PyTorch keeps handles of ops that are gone."""
    with torch.library._scoped_library("aoti_plugins_particular", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor", tags=[torch.Tag.flexible_layout])
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
        torch.library.register_fake("aoti_plugins_particular::twice", torch.clone, lib=library)
        yield torch.ops.aoti_plugins_particular.twice.default


@pytest.fixture
def particular(twice: Any) -> Iterator[Callable[[Callable[[Any], bool]], None]]:
    """Lets Inductor generate the op only of operands that one likes."""
    with mock.patch.dict(lowering.lowerings):

        def define(likes: Callable[[Any], bool]) -> None:
            def lowered(x: Any) -> Any:
                if not likes(x):
                    raise NotImplementedError("not such an operand")
                return lowering.lowerings[torch.ops.aten.mul.Tensor](x, 2)

            lowering.lowerings[twice] = lowered

        yield define


class Between(torch.nn.Module):
    """The op reads what has just been computed, once as it is and once as a view."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = torch.ops.aoti_plugins_particular.twice(x.sin() + 1).cos()
        return torch.ops.aoti_plugins_particular.twice(first.mT[1:]).exp()


def test_op_that_fails_in_the_graph_gets_its_inputs_in_memory(
    particular: Callable[..., Any],
) -> None:
    asked: list[bool] = []

    def is_stored(x: Any) -> bool:
        asked.append(ir.is_storage_and_layout(x))
        return asked[-1]

    particular(is_stored)
    x = torch.randn(3, 4)
    lowered = lower(Between(), (x,))
    plan = lowered.executorch_program.execution_plan[0]
    assert [one.id for one in plan.delegates] == ["AotiCpuBackend"]
    assert not plan.operators  # nothing is left to ExecuTorch
    assert False in asked
    with Program(bytes(lowered.buffer)) as program:
        torch.testing.assert_close(program(x)[0], Between()(x))


def test_op_that_fails_in_either_way_is_named(particular: Callable[..., Any]) -> None:
    particular(lambda x: isinstance(x.data.data, ir.InputBuffer))
    with pytest.raises(LoweringError) as caught:
        lower(Between(), (torch.randn(3, 4),))
    message = str(caught.value)
    assert "aoti_plugins_particular.twice.default by itself, and fails with it" in message
    assert "not such an operand" in message
    assert "first = torch.ops.aoti_plugins_particular.twice(x.sin() + 1).cos()" in message
    assert "exclude=['aoti_plugins_particular.twice.default']" in message


class Summed(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * 2).cumsum(1).relu()


def test_excluded_op_is_left_to_executorch(caplog: pytest.LogCaptureFixture) -> None:
    x = torch.randn(3, 4)
    partitioner = CpuPartitioner(exclude=["aten.cumsum.default"])
    lowered = lower(Summed(), (x,), partitioner=partitioner)
    plan = lowered.executorch_program.execution_plan[0]
    assert len(plan.delegates) == 2
    assert [one.name for one in plan.operators] == ["aten::cumsum"]
    assert "the option 'exclude' names it" in caplog.text
    with Program(bytes(lowered.buffer)) as program:
        torch.testing.assert_close(program(x)[0], Summed()(x))


@pytest.mark.parametrize("name", ["aten.cumsum", "aten.cumsun.default", "cumsum", "aten"])
def test_what_is_excluded_is_an_op(name: str) -> None:
    with pytest.raises(LoweringError, match=r"'aten.cumsum.default'; found"):
        CpuPartitioner(exclude=[name])
