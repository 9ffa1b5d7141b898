"""Small kernels that do not wait for each other are one kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from support import lower
from torch import Tensor, nn
from torch.export import Dim

from aoti_plugins import CudaPartitioner
from aoti_plugins.cli._pte import inspect_program


class Several(nn.Module):
    """A row of a table, angles and a mask, as in front of layers of a decoder; and more."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.rand(10, 2048))

    def forward(self, token: Tensor, position: Tensor, large: Tensor) -> list[Tensor]:
        angles = position * torch.arange(64, device=position.device)
        row = nn.functional.embedding(token, self.table)
        mask = torch.arange(1024, device=position.device) <= position
        return [row, angles.cos(), mask, large.exp()]


class State(nn.Module):
    """Two small kernels, one of which writes to what was there before."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(64))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        self.seen.add_(x)
        return y.sin()


def _kernels(
    model: nn.Module, inputs: tuple[Any, ...], path: Path, shapes: Any = None
) -> list[Any]:
    program = lower(
        model, inputs, partitioner=CudaPartitioner(target="h100"), dynamic_shapes=shapes
    )
    path.write_bytes(program.buffer)
    (delegate,) = inspect_program(path)["methods"][0]["delegates"]
    return list(delegate["payload"]["targets"][0]["kernels"])


def test_small_ones_are_one_that_says_what_it_is(tmp_path: Path) -> None:
    inputs = (torch.tensor([3]), torch.tensor([7.0]), torch.rand(1 << 16))
    kernels = _kernels(Several(), inputs, tmp_path / "model.pte")
    small, large = sorted(kernels, key=lambda one: one["ops"] == ("aten.exp.default",))
    assert {"aten.embedding.default", "aten.cos.default", "aten.le.Tensor"} <= set(small["ops"])
    assert large["ops"] == ("aten.exp.default",)
    assert small["name"].startswith("triton_poi_fused__to_copy_arange_cos_embedding_le_mul_")
    assert len(small["lines"]) == 4
    assert small["nbytes_written"] == 2048 * 4 + 64 * 4 + 1024


def test_one_of_which_nobody_knows_how_large_it_is_stays_alone(tmp_path: Path) -> None:
    inputs = (torch.tensor([3, 4]), torch.tensor([7.0]), torch.rand(8))
    shapes = {"token": {0: Dim("tokens", max=4)}, "position": None, "large": None}
    kernels = _kernels(Several(), inputs, tmp_path / "model.pte", shapes)
    rows = [one for one in kernels if "aten.embedding.default" in one["ops"]]
    assert [set(one["ops"]) for one in rows] == [{"aten.embedding.default"}]
    (together,) = (set(one["ops"]) for one in kernels if "aten.le.Tensor" in one["ops"])
    assert {"aten.cos.default", "aten.exp.default"} <= together


def test_what_writes_to_a_state_is_by_itself(tmp_path: Path) -> None:
    kernels = _kernels(State(), (torch.rand(64), torch.rand(32)), tmp_path / "model.pte")
    sine = [set(one["ops"]) for one in kernels if "aten.sin.default" in one["ops"]]
    assert sine == [{"aten.sin.default"}]
    assert len(kernels) > 1
