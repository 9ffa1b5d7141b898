"""``aoti-plugins compare``: a program against eager PyTorch, and the op at which they part."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result
from torch import nn

from aoti_plugins.cli._differences import difference
from aoti_plugins.cli.app import app
from aoti_plugins.hooks import hookimpl
from aoti_plugins.plugin_system.manager import get_manager

pytestmark = pytest.mark.usefixtures("restored_logging")


class Counting(nn.Module):
    """Layers, several results of one op, and a buffer that counts calls."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(6, 6), nn.Linear(6, 3)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: torch.Tensor, *, scale: torch.Tensor) -> dict[str, torch.Tensor]:
        self.calls.add_(1)
        hidden = torch.sigmoid(self.first(x) * scale)
        values, order = hidden.sort(-1)
        return {"result": self.last(values) + self.calls, "order": order}


class WrongSigmoid:
    """A plugin that computes something else."""

    @hookimpl
    def aoti_decompositions(self) -> dict[Any, Callable[..., Any]]:
        return {torch.ops.aten.sigmoid.default: lambda x: torch.tanh(x) * 0.5 + 0.49}


def aoti(*arguments: object) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)))


def saved(model: nn.Module, folder: Path, name: str = "model") -> Path:
    path = folder / f"{name}.pt2"
    inputs = (torch.linspace(-2, 2, 24).view(4, 6),)
    torch.export.save(torch.export.export(model.eval(), inputs, {"scale": torch.ones(6)}), path)
    return path


def lowered(model: Path) -> Path:
    done = aoti("lower", model)
    assert done.exit_code == 0, done.output
    return model.with_suffix(".pte")


def test_a_right_program(tmp_path: Path) -> None:
    model = saved(Counting(), tmp_path)
    program = lowered(model)
    shown = aoti("compare", model, program)
    assert shown.exit_code == 0, shown.output
    assert "differs" not in shown.stdout
    assert "they part" not in shown.stdout
    told = aoti("compare", model, program, "--ops", "--json")
    assert told.exit_code == 0, told.output
    report = json.loads(told.stdout)
    assert report["is_near"]
    assert report["first_op"] is None
    assert [one["shape"] for one in report["outputs"]] == [[4, 3], [4, 6]]
    ops = [one["op"] for one in report["ops"]]
    assert ops.count("aten.linear.default") == 2
    assert {"aten.sigmoid.default", "aten.sort.default[0]", "aten.sort.default[1]"} <= set(ops)


def test_the_op_at_which_they_part_is_named(tmp_path: Path) -> None:
    model = saved(Counting(), tmp_path)
    with get_manager().registered(WrongSigmoid(), "wrong-sigmoid"):
        program = lowered(model)
        shown = aoti("compare", model, program)
    assert shown.exit_code == 1, shown.output
    assert "differs" in shown.stdout
    assert "they part at aten.sigmoid.default (node 'sigmoid')" in shown.stdout
    assert "torch.sigmoid(self.first(x) * scale)" in shown.stdout
    allowed = aoti("compare", model, program, "--tolerance", 0.5, "--json")
    report = json.loads(allowed.stdout)
    assert report["outputs"][0]["is_near"]
    # Op by op a right lowering agrees, so the program was lowered in another way.
    shown = aoti("compare", model, program)
    assert shown.exit_code == 1
    assert "op by op they agree" in shown.stdout


def test_weights_may_lie_beside_the_program(tmp_path: Path) -> None:
    model = saved(Counting(), tmp_path)
    assert aoti("lower", model, "--external-weights").exit_code == 0
    beside = sorted(tmp_path.iterdir())
    (data,) = tmp_path.glob("*.ptd")
    shown = aoti("compare", model, model.with_suffix(".pte"), "--data", data, "--ops")
    assert shown.exit_code == 0, shown.output
    assert "all ops agree with eager PyTorch" in shown.stdout
    assert sorted(tmp_path.iterdir()) == beside


def test_what_cannot_be_compared_is_an_error(tmp_path: Path) -> None:
    model = saved(Counting(), tmp_path)
    program = lowered(model)
    other = tmp_path / "other.pt2"
    torch.export.save(torch.export.export(nn.Linear(6, 2), (torch.randn(4, 6),)), other)
    few = aoti("compare", other, program)
    assert few.exit_code == 1
    assert "got 1 inputs, expected 2" in few.output
    missing = aoti("compare", model, tmp_path / "none.pte")
    assert missing.exit_code == 1
    assert "none.pte" in missing.output
    none = aoti("compare", model, program, "--method", "decode")
    assert none.exit_code == 1
    assert "has no method 'decode'" in none.output
    inputs = aoti("compare", model, program, "--input", "3")
    assert inputs.exit_code == 1
    assert "takes 2 inputs, 1 were given" in inputs.output


@pytest.mark.parametrize(
    ("expected", "found", "is_near"),
    [
        (torch.tensor([1.0, 100]), torch.tensor([1.005, 100]), True),
        (torch.tensor([1.0, 100]), torch.tensor([1.05, 100]), False),
        (torch.tensor([1.0]).bfloat16(), torch.tensor([1.03]).bfloat16(), True),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), False),
        (torch.tensor([True]), torch.tensor([True]), True),
        (torch.tensor([math.nan, math.inf, 1]), torch.tensor([math.nan, math.inf, 1]), True),
        (torch.tensor([math.inf, 1]), torch.tensor([3e38, 1]), False),
        (torch.tensor([math.nan, 1]), torch.tensor([0.0, 1]), False),
        (torch.tensor([1 + 1j]), torch.tensor([1 + 1.00001j]), True),
        (torch.tensor([]), torch.tensor([]), True),
        (torch.zeros(2), torch.zeros(2, 1), False),
        (torch.zeros(2), torch.zeros(2).double(), False),
        (3, 3, True),
        (3, 4, False),
    ],
)
def test_what_rounding_explains(expected: Any, found: Any, is_near: bool) -> None:
    assert difference(expected, found).is_near is is_near
