"""A program with an op outside of its delegates, and the record that Inspector asks for."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from filelock import FileLock
from profiling_support import Block
from support import CdistOutside
from torch import nn

from aoti_plugins.plugin_system.manager import get_manager


class Watched(nn.Module):
    """Two blocks of one class, and an op between that ExecuTorch runs itself."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.last = nn.Linear(6, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = self.last(self.blocks[0](x)).sum(1)
        distances = torch.cdist(rows, rows)
        return self.blocks[1](rows) * distances.sum()


@pytest.fixture(scope="session")
def watched(shared_dir: Path) -> Path:
    """Path of the program; beside it the model as ``.pt2`` and ExecuTorch's ``.etrecord``."""
    from executorch.exir import to_edge_transform_and_lower

    from aoti_plugins.cpu.partitioner import CpuPartitioner

    path = shared_dir / "watched.pte"
    with FileLock(f"{path}.lock"):
        if not path.exists():
            exported = torch.export.export(Watched().eval(), (torch.ones(3, 8),))
            torch.export.save(exported, path.with_suffix(".pt2"))
            with get_manager().registered(CdistOutside(), "cdist-outside"):
                edge = to_edge_transform_and_lower(
                    exported, partitioner=[CpuPartitioner()], generate_etrecord=True
                )
                program = edge.to_executorch()
            program.get_etrecord().save(str(path.with_suffix(".etrecord")))
            path.write_bytes(program.buffer)
    return path
