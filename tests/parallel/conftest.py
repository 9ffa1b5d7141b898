"""Programs for several ranks, lowered once per run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from filelock import FileLock
from models import KV_HEADS, PLAN, Decoder, Perceptron
from torch.export import Dim

from aoti_plugins import CpuPartitioner, parallel


@pytest.fixture(scope="session")
def lowered_ranks(shared_dir: Path) -> Callable[[str, Any], Path]:
    """``lowered_ranks(name, export)`` is the path of a program; ``export()`` gives it, once."""

    def lowered(name: str, export: Callable[[], Any]) -> Path:
        folder = shared_dir / f"ranks_{name}"
        path = folder / f"{name}.pte"
        with FileLock(f"{folder}.lock"):
            if not path.exists():
                from executorch.exir import to_edge_transform_and_lower

                partitioner = CpuPartitioner(external_data=name)
                edge = to_edge_transform_and_lower(export(), partitioner=[partitioner])
                program = edge.to_executorch()
                folder.mkdir()
                program.write_tensor_data_to_file(str(folder))
                path.write_bytes(program.buffer)
        return path

    return lowered


def export_decoder(world_size: int) -> Any:
    """The decoder for some ranks, with any number of tokens."""

    def make(rank: int) -> Any:
        model = Decoder(KV_HEADS // world_size)
        whole = Decoder()
        caches = {n: v for n, v in model.named_buffers() if n.endswith(("keys", "values"))}
        model.load_state_dict({**whole.state_dict(), **caches})
        model = model.eval().requires_grad_(False)
        parallel.parallelize(model, PLAN, rank, world_size)
        tokens = Dim("tokens", max=8)
        shapes = {"tokens": {1: tokens}, "positions": {0: tokens}}
        inputs = torch.zeros(1, 3, dtype=torch.long), torch.arange(3)
        return torch.export.export(model, inputs, dynamic_shapes=shapes)

    return parallel.export_ranks(make, world_size)


def export_perceptron(scale: float = 1.0) -> Any:
    """A module with DTensors as weights, for two ranks."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    def make(rank: int) -> Any:
        del rank
        model = Perceptron().eval()
        with torch.no_grad():
            model.first.weight *= scale
        plan = {
            "embedding": RowwiseParallel(input_layouts=Replicate()),
            "first": ColwiseParallel(),
            "second": RowwiseParallel(),
        }
        mesh = init_device_mesh("cpu", (2,))
        parallelize_module(model, mesh, plan, src_data_rank=None)
        return parallel.export_dtensors(model, (torch.arange(4),))

    return parallel.export_ranks(make, 2)


@pytest.fixture(scope="session")
def perceptron(lowered_ranks: Callable[[str, Any], Path]) -> Path:
    """The program of ``export_perceptron``, for two ranks."""
    return lowered_ranks("perceptron", export_perceptron)


@pytest.fixture(scope="session")
def other_perceptron(lowered_ranks: Callable[[str, Any], Path]) -> Path:
    """The same with other weights."""
    return lowered_ranks("other_perceptron", lambda: export_perceptron(2.0))
