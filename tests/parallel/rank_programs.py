"""The models of ``rank_models.py``, exported for several ranks."""

from __future__ import annotations

from typing import Any

import torch
from rank_models import KV_HEADS, PLAN, Decoder, Perceptron
from torch.export import Dim

from aoti_plugins import parallel


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
