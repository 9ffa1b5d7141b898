"""Random small graphs equal eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from random_graphs import Graph, Model, graphs, tolerance

from aoti_plugins.runtime import Program

SETTINGS = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def _check(graph: Graph, lower_whole: Callable[..., bytes]) -> None:
    model = Model(graph)
    generator = torch.Generator().manual_seed(1)
    example, *others = [tuple(one.make(generator) for one in graph.inputs) for _ in range(3)]
    with Program(lower_whole(model, example)) as program:
        for inputs in others:
            expected = model(*inputs)
            found = program(*inputs)
            assert len(found) == len(expected)
            for one, other in zip(found, expected, strict=True):
                assert (one.dtype, one.shape) == (other.dtype, other.shape)
                wide, right = one.double(), other.double()
                scale = 1 + right.abs().max().item() if right.numel() else 1
                error = (wide - right).abs().max().item() if right.numel() else 0
                assert error <= tolerance(graph, expected) * scale


@settings(SETTINGS, max_examples=8, derandomize=True)
@given(graph=graphs())
def test_a_few(graph: Graph, lower_whole: Callable[..., bytes]) -> None:
    _check(graph, lower_whole)


@pytest.mark.long
@settings(SETTINGS, max_examples=500)
@given(graph=graphs())
def test_many(graph: Graph, lower_whole: Callable[..., bytes]) -> None:
    _check(graph, lower_whole)
