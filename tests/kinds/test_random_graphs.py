"""Random small graphs equal eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from random_graphs import Graph, Model, graphs, tolerance
from torch import nn

from aoti_plugins import CudaPartitioner
from aoti_plugins.runtime import Program

SETTINGS = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)

# Compiling takes most of the time, so a few graphs make one program.
TOGETHER = 4
few_graphs = st.lists(graphs(), min_size=TOGETHER, max_size=TOGETHER)


class Models(nn.Module):
    """Graphs side by side, each with inputs of its own."""

    def __init__(self, drawn: list[Graph]) -> None:
        super().__init__()
        self._models = [Model(graph) for graph in drawn]
        self._counts = [len(graph.inputs) for graph in drawn]

    def forward(self, *inputs: torch.Tensor) -> list[tuple[torch.Tensor, ...]]:
        """The outputs of every graph."""
        found, start = [], 0
        for model, count in zip(self._models, self._counts, strict=True):
            found.append(model(*inputs[start : start + count]))
            start += count
        return found


def _check(drawn: list[Graph], lower_whole: Callable[..., bytes]) -> None:
    models = Models(drawn)
    generator = torch.Generator().manual_seed(1)
    example, *others = [
        tuple(one.make(generator) for graph in drawn for one in graph.inputs) for _ in range(3)
    ]
    with Program(lower_whole(models, example)) as program:
        for inputs in others:
            expected = models(*inputs)
            found = iter(program(*inputs))
            for graph, right in zip(drawn, expected, strict=True):
                _compare(graph, [next(found) for _ in right], right)
            assert not list(found)


def _compare(graph: Graph, found: list[torch.Tensor], expected: tuple[torch.Tensor, ...]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        wide, right = one.double(), other.double()
        scale = 1 + right.abs().max().item() if right.numel() else 1
        error = (wide - right).abs().max().item() if right.numel() else 0
        assert error <= tolerance(graph, expected) * scale, graph


@settings(SETTINGS, max_examples=5, derandomize=True)
@given(drawn=few_graphs)
def test_a_few(drawn: list[Graph], lower_whole: Callable[..., bytes]) -> None:
    _check(drawn, lower_whole)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(2))
@settings(SETTINGS, max_examples=63)
@given(drawn=few_graphs)
def test_many(part: int, drawn: list[Graph], lower_whole: Callable[..., bytes]) -> None:
    """504 graphs; run the parts side by side (``-n 2``)."""
    _check(drawn, lower_whole)


def _whole_for_a_gpu(model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> bytes:
    exported = torch.export.export(model, inputs)
    program = to_edge_transform_and_lower(exported, partitioner=[CudaPartitioner()])
    return bytes(program.to_executorch().buffer)


@pytest.mark.gpu
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(16))
@settings(SETTINGS, max_examples=16, phases=[Phase.generate])
@given(drawn=few_graphs)
def test_many_on_a_gpu(part: int, drawn: list[Graph]) -> None:
    """1024 graphs, lowered for the GPU that is there; a failure is shown as it was drawn."""
    _check(drawn, _whole_for_a_gpu)
