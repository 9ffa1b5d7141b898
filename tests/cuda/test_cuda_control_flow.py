"""Predicates of ``cond`` that are computed on the host stay there; those of the GPU do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import executorch.kernels.portable
import pytest
import torch
import yaml
from executorch.exir import to_edge_transform_and_lower
from support import lower
from torch import nn
from torch.export import Dim, export

from aoti_plugins import CudaPartitioner
from aoti_plugins.lowering.host_predicates import PORTABLE_OPS, host_predicates


def _positive(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x) + 1


def _double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


class Compared(nn.Module):
    """A position decides."""

    def forward(self, n: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """One of two ways."""
        return torch.cond(n > 3, _positive, _double, (x,))


class Combined(nn.Module):
    """Two positions decide, after work that is the GPU's."""

    def forward(self, n: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """One of two ways, and the position used by the GPU as well."""
        inside = (n[0] > 3) & (n[1] < 10)
        return torch.cond(inside, _positive, _double, (x * 3,)), x + n[0]


class Counted(nn.Module):
    """A counter that the program changes decides: state is the delegate's."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("steps", torch.tensor(0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One more step, then one of two ways."""
        self.steps.add_(1)
        return torch.cond(self.steps > 1, _positive, _double, (x * 3,))


class Flagged(nn.Module):
    """A flag decides."""

    def forward(self, flag: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """One of two ways."""
        return torch.cond(flag, _positive, _double, (x,))


class Item(nn.Module):
    """A number decides that was a tensor."""

    def forward(self, n: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """One of two ways."""
        return torch.cond(n.item() > 3, _positive, _double, (x,))


class Shape(nn.Module):
    """A size decides."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One of two ways, after work that is the GPU's."""
        return torch.cond(x.shape[0] > 4, _positive, _double, (x * 2,))


class Computed(nn.Module):
    """The sum of a small product decides: the product is the GPU's work, so all of it is."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One of two ways."""
        return torch.cond((x @ x).sum() > 0, _positive, _double, (x,))


X = torch.randn(8, 8)
ROWS = ({0: Dim("rows", min=2, max=9)},)
CASES: dict[str, tuple[nn.Module, tuple[torch.Tensor, ...], Any, set[str]]] = {
    "compared": (Compared(), (torch.tensor(5), X), None, {"aten::gt"}),
    "combined": (
        Combined(),
        (torch.tensor([5, 6]), X),
        None,
        {"aten::select_copy", "aten::gt", "aten::lt", "aten::bitwise_and"},
    ),
    "counted": (Counted(), (X,), None, set()),
    "flag": (Flagged(), (torch.tensor(True), X), None, set()),
    "item": (
        Item(),
        (torch.tensor(5), X),
        None,
        {"aten::_local_scalar_dense", "executorch_prim::gt"},
    ),
    "shape": (Shape(), (torch.randn(8, 3),), ROWS, {"executorch_prim::gt"}),
    "computed": (Computed(), (X,), None, set()),
}


@pytest.mark.parametrize("name", CASES)
def test_where_predicates_are_computed(name: str) -> None:
    model, inputs, dynamic_shapes, expected = CASES[name]
    torch._dynamo.reset()  # it remembers for which sizes it has seen the branches
    exported = export(model, inputs, dynamic_shapes=dynamic_shapes)
    edge = to_edge_transform_and_lower(exported, partitioner=[CudaPartitioner(target="h100")])
    (plan,) = edge.to_executorch().executorch_program.execution_plan
    assert {op.name for op in plan.operators} == expected
    assert len(plan.delegates) >= 2  # the branches


def test_a_predicate_on_the_host_is_right() -> None:
    """ExecuTorch's kernels are those of a CPU program, too; here they run."""
    from aoti_plugins.lowering import partitioning
    from aoti_plugins.runtime import Program

    model = Combined()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partitioning.Plan, "_is_host", lambda self: False)
        program = lower(model, (torch.tensor([5, 6]), X))
    names = {op.name for op in program.executorch_program.execution_plan[0].operators}
    assert names == {"aten::select_copy", "aten::gt", "aten::lt", "aten::bitwise_and"}
    with Program(bytes(program.buffer)) as loaded:
        method = loaded.method()
        for n in (torch.tensor([5, 6]), torch.tensor([2, 6]), torch.tensor([5, 10])):
            for found, expected in zip(method(n, X), model(n, X), strict=True):
                torch.testing.assert_close(found, expected)


def test_executorch_has_kernels_for_what_stays() -> None:
    folder = Path(executorch.kernels.portable.__path__[0])
    kernels = {entry.get("op") for entry in yaml.safe_load((folder / "functions.yaml").read_text())}
    for op in PORTABLE_OPS:
        name = op.name().removeprefix("aten::")
        base, _, overload = name.partition(".")
        choices = {f"{base}.{overload}_out", f"{base}.out", f"{base}.all_out"}
        assert choices & kernels, name


def test_large_tensors_are_not_for_the_host() -> None:
    class Large(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(torch.any(x > 0), _positive, _double, (x,))

    for elements, expected in ((8, 2), (800, 0)):
        module = export(Large(), (torch.randn(elements),)).graph_module
        assert len(host_predicates(module)) == expected
