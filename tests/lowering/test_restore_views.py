"""Copies become views where nobody can tell, and stay copies where somebody writes."""

from __future__ import annotations

import re

import torch
from executorch.exir import to_edge
from torch import nn

from aoti_plugins.lowering.passes.edge_to_aten import edge_to_aten
from aoti_plugins.lowering.passes.restore_views import VIEWS, restore_views


class Views(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        left, right = torch.split(x[1:], 2, dim=1)
        return left[0] + right.transpose(0, 1)[0].unsqueeze(0)


class Cache(nn.Module):
    """Returns a part of a buffer, then overwrites the buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = torch.slice_copy(self.state, 0, 0, 2)
        self.state.copy_(x)
        return before


def _edge(model: nn.Module, *inputs: torch.Tensor) -> torch.export.ExportedProgram:
    return to_edge(torch.export.export(model, inputs)).exported_program()


def _run_passes(program: torch.export.ExportedProgram) -> set[str]:
    edge_to_aten(program)
    restore_views(program)
    return {str(n.target) for n in program.graph.nodes if n.op == "call_function"}


def test_copies_become_views() -> None:
    x = torch.randn(3, 4)
    program = _edge(Views(), x)
    ops = _run_passes(program)
    assert not {name for name in ops if "_copy" in name}
    assert {"aten.slice.Tensor", "aten.select.int"} <= ops
    assert "aten.clone.default" not in ops
    torch.testing.assert_close(program.module()(x), Views()(x))


def test_a_copy_of_what_is_overwritten_stays_a_copy() -> None:
    program = _edge(Cache(), torch.ones(4))
    ops = _run_passes(program)
    assert "aten.clone.default" in ops
    module = program.module()
    torch.testing.assert_close(module(torch.ones(4)), torch.zeros(2))
    torch.testing.assert_close(module(torch.zeros(4)), torch.ones(2))


def test_every_copying_op_has_the_view_of_its_name() -> None:
    for copy, view in VIEWS.items():
        expected = "reshape" if copy is torch.ops.aten.view_copy.default else None
        name = copy._schema.name.removeprefix("aten::").removesuffix("_copy")
        assert view._schema.name == f"aten::{expected or name}"
        assert view._overloadname == copy._overloadname


# Of layouts or tensor subclasses that a program cannot hold.
OTHER = (
    "_conj|_fw_primal|_indices|_make_dual|_neg_view|_nested_\\w+|_reshape_alias|_test\\w+|_values|"
    "ccol_indices|col_indices|crow_indices|indices|lift_fresh|row_indices|values|view_as_\\w+"
)


def test_the_list_is_complete() -> None:
    known = {copy._schema.name.removeprefix("aten::") for copy in VIEWS}
    found = {
        name
        for name in dir(torch.ops.aten)
        if name.endswith("_copy")
        and not re.fullmatch(OTHER, name.removesuffix("_copy"))
        and _returns_a_view(name.removesuffix("_copy"))
    }
    assert found <= known, found - known


def _returns_a_view(name: str) -> bool:
    if name not in dir(torch.ops.aten):
        return False
    packet = getattr(torch.ops.aten, name)
    schema = getattr(packet, packet.overloads()[0])._schema
    return not schema.is_mutable and any(r.alias_info is not None for r in schema.returns)
