"""Lower and run many test programs as one, and name each that fails."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from comparison import differences
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from operator_case import Case, Programs

from aoti_plugins.runtime import Program

Check = Callable[..., None]

_LONGEST = 800


def _fails(cases: Sequence[Case], partitioner: Callable[[], Any], is_run: bool) -> list[str]:
    """What is wrong with each case; where all of them as one fail, they are halved."""
    programs = Programs(cases)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of PyTorch about its own operators
            manager = _lowered(programs, partitioner())
            expected = programs.expected() if is_run else []
        plan = manager.executorch_program.execution_plan[0]
        outside = sorted({f"{op.name}.{op.overload}" for op in plan.operators})
        assert not outside, f"outside of the delegate: {', '.join(outside)}"
        if not is_run:
            return []
        with Program(manager.buffer) as program:
            found = program(*programs.inputs())
    except Exception as error:  # of whatever kind, it is told with the others
        if len(cases) == 1:
            return [f"{cases[0]}: {type(error).__name__}: {str(error).strip()[:_LONGEST]}"]
        middle = len(cases) // 2
        halves = (cases[:middle], cases[middle:])
        return [one for half in halves for one in _fails(half, partitioner, is_run)]
    return [text for text in [differences(programs.names(), found, expected)] if text]


def _lowered(programs: Programs, partitioner: Any) -> Any:
    exported = torch.export.export(programs, programs.inputs())
    values = [node.meta.get("val") for node in exported.graph.nodes]
    is_complex = any(isinstance(one, torch.Tensor) and one.is_complex() for one in values)
    # ExecuTorch's check of dtypes knows no complex ones.
    config = EdgeCompileConfig(_check_ir_validity=not is_complex)
    edge = to_edge_transform_and_lower(exported, partitioner=[partitioner], compile_config=config)
    return edge.to_executorch()


@pytest.fixture(scope="session")
def check_cases() -> Check:
    """``check_cases(cases, partitioner, is_run=True)`` lowers cases whole, runs them, compares.

    ``partitioner`` is called for each lowering. Fails with one paragraph for each case that fails.
    """

    def check(
        cases: Sequence[Case], partitioner: Callable[[], Any], *, is_run: bool = True
    ) -> None:
        failed = _fails(cases, partitioner, is_run)
        assert not failed, "\n\n".join(failed)

    return check
