"""A part of a model with kernels of all kinds, and what a program says of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn


class Block(nn.Module):
    """A product, a convolution and a fused kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.project, self.smooth = nn.Linear(8, 8), nn.Conv1d(1, 2, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.smooth(torch.relu(self.project(x))[:, None]).softmax(-1)


def check_kernels(kernels: list[dict[str, list[str]]]) -> None:
    """The product, the convolution and what is fused are there, and where each is from."""
    ops = [set(one["ops"]) for one in kernels]
    assert any("aten.linear.default" in one for one in ops)
    assert any("aten.conv1d.default" in one for one in ops)
    assert any("aten.softmax.int" in one or "aten._softmax.default" in one for one in ops)
    modules = {module for one in kernels for module in one["modules"]}
    assert {"project (Linear)", "smooth (Conv1d)"} <= modules
    assert all(one["lines"] for one in kernels)


class Attention(nn.Module):
    """Ops that take several kernels, kernels of several ops, and views between them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.norm = nn.LayerNorm(16)
        self.project, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.smooth = nn.Conv1d(16, 16, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.project(self.norm(x)).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
        heads = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(heads.transpose(1, 2).flatten(-2))
        return self.smooth(x.transpose(1, 2)).relu().softmax(-1).cumsum(-1)


def with_record(model: nn.Module, x: torch.Tensor, partitioner: Any, folder: Path) -> Path:
    """Path of a program; beside it the record that Inspector asks for, with its inputs."""
    from executorch.exir import to_edge_transform_and_lower

    exported = torch.export.export(model, (x,))
    edge = to_edge_transform_and_lower(exported, partitioner=[partitioner], generate_etrecord=True)
    program = edge.to_executorch()
    record = program.get_etrecord()
    record.update_representative_inputs([(x,)])
    path = folder / "model.pte"
    record.save(str(path.with_suffix(".etrecord")))
    path.write_bytes(program.buffer)
    return path


_GAPS = """
import json, sys
from executorch.devtools import Inspector
dump, outputs, record = sys.argv[1:]
inspector = Inspector(etdump_path=dump, debug_buffer_path=outputs, etrecord=record)
table = inspector.calculate_numeric_gap("L1")
print(json.dumps({ops[-1]: gap[0] for ops, gap in zip(table["aot_ops"], table["gap"])}))
"""


def numeric_gaps(dump: Path, outputs: Path, record: Path) -> dict[str, float]:
    """Sums of absolute differences between kernels and PyTorch, by op, as ExecuTorch finds them.

    In a process of its own: ExecuTorch's devtools warn as they are imported.
    """
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _GAPS, *map(str, (dump, outputs, record))],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    return dict(json.loads(ran.stdout.splitlines()[-1]))
