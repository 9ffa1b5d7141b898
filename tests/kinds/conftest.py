"""Helpers of the tests of kinds of models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from of_function import OfFunction
from support import CdistOutside
from torch import nn
from torch.utils import _pytree as pytree

from aoti_plugins import CpuPartitioner
from aoti_plugins.plugin_system.manager import get_manager
from aoti_plugins.runtime import Program


@pytest.fixture(scope="module", autouse=True)
def _cdist_outside() -> Iterator[None]:
    with get_manager().registered(CdistOutside(), "cdist-outside"):
        yield


def lowered_whole(
    model: Any,
    inputs: tuple[Any, ...],
    edge: EdgeCompileConfig | None,
    partitioner: CpuPartitioner | None = None,
) -> bytes:
    """Lower a module or function; fails if any op stays outside the delegate."""
    module = model if isinstance(model, nn.Module) else OfFunction(model)
    exported = torch.export.export(module, inputs)
    manager = to_edge_transform_and_lower(
        exported, partitioner=[partitioner or CpuPartitioner()], compile_config=edge
    ).to_executorch()
    plan = manager.executorch_program.execution_plan[0]
    assert [f"{op.name}.{op.overload}" for op in plan.operators] == []
    return bytes(manager.buffer)


@pytest.fixture(scope="session")
def lower_whole() -> Callable[..., bytes]:
    """``lower_whole(model, inputs, edge=None)`` is the program, all of it delegated."""

    def lower(model: Any, inputs: tuple[Any, ...], edge: EdgeCompileConfig | None = None) -> bytes:
        return lowered_whole(model, inputs, edge)

    return lower


@pytest.fixture(scope="session")
def lower_many() -> Callable[[Any, tuple[Any, ...]], bytes]:
    """As ``lower_whole``, with one partitioner, which asks Inductor about each op but once."""
    partitioner = CpuPartitioner()

    def lower(model: Any, inputs: tuple[Any, ...]) -> bytes:
        return lowered_whole(model, inputs, None, partitioner)

    return lower


@pytest.fixture(scope="session")
def check() -> Callable[..., None]:
    """``check(model, *inputs)`` lowers, runs twice, and compares with eager PyTorch."""

    def compare(
        model: Any, *inputs: Any, edge: EdgeCompileConfig | None = None, **tolerances: float
    ) -> None:
        expected = pytree.tree_leaves(model(*inputs), is_leaf=lambda value: value is None)
        flat = pytree.tree_leaves(inputs, is_leaf=lambda value: value is None)
        with Program(lowered_whole(model, inputs, edge)) as program:
            for _ in range(2):
                found = program(*flat)
                assert len(found) == len(expected)
                for index, (one, other) in enumerate(zip(found, expected, strict=True)):
                    same(one, other, f"output {index}", **tolerances)

    return compare


def same(found: Any, expected: Any, what: str, **tolerances: float) -> None:
    """Compare one output: dtype, shape and values of a tensor, or a number."""
    if not isinstance(expected, torch.Tensor):
        assert found == expected, what
        return
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape), what
    if expected.dtype.itemsize == 1 and expected.dtype.is_floating_point:
        found, expected = found.float(), expected.float()
    torch.testing.assert_close(
        found, expected, equal_nan=True, msg=lambda text: f"{what}: {text}", **tolerances
    )
