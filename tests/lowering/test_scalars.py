"""Graph passes find the numbers of a model, which the edge dialect keeps as tensors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from executorch.exir import to_edge_transform_and_lower
from torch import nn

from aoti_plugins import CpuPartitioner, GraphPass, get_manager, hookimpl, scalar_value


class Model(nn.Module):
    """Numbers of the dtype of what they meet, and of another one; buffers of both kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.tensor(0.5))
        self.register_buffer("steps", torch.tensor(3.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.steps.add_(1.0)
        return torch.clamp((x * 2.5 + 1) * self.scale * self.steps, min=-7) * x


class Look:
    """A plugin whose pass looks at all arguments, before or behind our own passes."""

    def __init__(self, **order: tuple[str, ...]) -> None:
        self.order = order
        self.found: dict[str, list[Any]] = {}

    @hookimpl
    def aoti_graph_passes(self) -> list[GraphPass]:
        return [GraphPass("test.look", self.look, **self.order)]

    def look(self, program: torch.export.ExportedProgram) -> None:
        for node in program.graph.nodes:
            if node.op == "call_function":
                name = node.target._schema.name
                values = [scalar_value(program, argument) for argument in node.args]
                self.found.setdefault(name, []).append(values)


def lowered_with(plugin: Look) -> dict[str, list[Any]]:
    exported = torch.export.export(Model(), (torch.ones(3),))
    with get_manager().registered(plugin, "look"):
        to_edge_transform_and_lower(exported, partitioner=[CpuPartitioner()])
    return plugin.found


def test_numbers_are_found_before_and_behind_our_passes() -> None:
    first = lowered_with(Look(before=("aoti_plugins.edge_to_aten",)))
    assert first == lowered_with(Look(after=("aoti_plugins.restore_views",)))
    products = [values[1] for values in first["aten::mul"]]
    assert products == [2.5, 0.5, None, None]  # a number, a buffer, one that is written, an input
    assert [None, 1.0] in first["aten::add"]
    assert first["aten::clamp"] == [[None, -7]]


def test_the_pass_of_the_docs_works() -> None:
    text = (Path(__file__).parents[2] / "docs" / "hooks.md").read_text()
    (example,) = re.findall(r"```python\n(import torch\n.*?)```", text, re.DOTALL)
    names: dict[str, Any] = {}
    exec(example, names)
    exported = torch.export.export(Double(), (torch.ones(3),))
    look = Look(after=("test.double",))

    class Doubles:
        @hookimpl
        def aoti_graph_passes(self) -> list[GraphPass]:
            after = ("aoti_plugins.edge_to_aten",)
            return [GraphPass("test.double", names["double_by_adding"], after=after)]

    with get_manager().registered(look, "look"), get_manager().registered(Doubles(), "doubles"):
        to_edge_transform_and_lower(exported, partitioner=[CpuPartitioner()])
    assert look.found["aten::add"] == [[None, None]]
    assert "aten::mul" not in look.found


class Double(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2
