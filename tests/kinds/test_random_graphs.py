"""Random small graphs equal eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from random_graphs import Graph, Input, Model, graphs, tolerance
from torch import nn

from aoti_plugins import CudaPartitioner
from aoti_plugins.runtime import Program

SETTINGS = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

# Compiling takes most of the time, so a few graphs make one program.
TOGETHER = 4
few_graphs = st.lists(graphs(), min_size=TOGETHER, max_size=TOGETHER)
many_graphs = st.lists(graphs(), min_size=20, max_size=20)


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
    example, *others = [_inputs(drawn, call) for call in range(3)]
    with Program(lower_whole(models, example)) as program:
        for call, inputs in enumerate(others, 1):
            expected = models(*inputs)
            found = iter(program(*inputs))
            for graph, right in zip(drawn, expected, strict=True):
                _compare(graph, call, [next(found) for _ in right], right)
            assert not list(found)


def _inputs(drawn: list[Graph], call: int) -> tuple[torch.Tensor, ...]:
    return tuple(value for graph in drawn for value in graph.make_inputs(call))


def _compare(
    graph: Graph, call: int, found: list[torch.Tensor], expected: tuple[torch.Tensor, ...]
) -> None:
    values = len(graph.inputs) + len(graph.steps)
    for index, (one, other) in enumerate(zip(found, expected, strict=True)):
        problem = _problem(one, other, tolerance(graph, expected))
        name = f"v{values - len(expected) + index}"
        if problem:
            raise AssertionError(f"{name}: {problem}\nimport torch\n{graph.text(call)}")


def _problem(found: torch.Tensor, expected: torch.Tensor, relative: float) -> str:
    """What is wrong with an output; empty if nothing is."""
    if (found.dtype, found.shape) != (expected.dtype, expected.shape):
        kinds = f"{found.dtype} {tuple(found.shape)}"
        return f"found {kinds}, expected {expected.dtype} {tuple(expected.shape)}"
    wide, right = found.double(), expected.double()
    allowed = relative * (1 + right.abs().max().item()) if right.numel() else 0
    wrong = ((wide - right).abs() > allowed) | (wide.isnan() != right.isnan())
    if not wrong.any():
        return ""
    place = tuple(wrong.nonzero()[0].tolist())
    return (
        f"{int(wrong.sum())} of {wrong.numel()} values are wrong, the first at {place}: found"
        f" {found[place].item()!r}, expected {expected[place].item()!r} within {allowed:.3g}"
        f"; {expected.dtype}, shape {tuple(expected.shape)}, strides {found.stride()}"
    )


def test_a_wrong_graph_is_printed_as_a_program_that_makes_it() -> None:
    step = "v0.index_select(1, torch.tensor([2, 0]))"
    graph = Graph([Input((2, 3), torch.float32, (1, 0))], [step])
    (inputs,) = graph.make_inputs(1)
    (right,) = Model(graph)(inputs)
    wrong = right.clone()
    wrong[1, 0] += 1
    with pytest.raises(AssertionError) as caught:
        _compare(graph, 1, [wrong], (right,))
    message, _, program = str(caught.value).partition("\n")
    assert "v1: 1 of 4 values are wrong, the first at (1, 0): found " in message
    space: dict[str, torch.Tensor] = {}
    exec(program, space)
    assert space["v0"].stride() == inputs.stride() == (1, 2)
    torch.testing.assert_close(space["v0"], inputs, rtol=0, atol=0)
    torch.testing.assert_close(space["v1"], right, rtol=0, atol=0)


@settings(SETTINGS, max_examples=5, derandomize=True)
@given(drawn=few_graphs)
def test_a_few(drawn: list[Graph], lower_whole: Callable[..., bytes]) -> None:
    _check(drawn, lower_whole)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(50))
@settings(SETTINGS, max_examples=10, phases=[Phase.generate])
@given(drawn=many_graphs)
def test_many(part: int, drawn: list[Graph], lower_whole: Callable[..., bytes]) -> None:
    """10,000 graphs; run the parts side by side (``-n 2``); a failure is shown as it was drawn."""
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
