"""Two threads that lower at once, for different devices, make what each makes alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import torch
from support import lower
from torch import nn

from aoti_plugins import CpuPartitioner, CudaPartitioner


def test_both_make_what_each_makes_alone() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16)).eval()
    example = (torch.randn(3, 8),)
    partitioners = [CpuPartitioner(), CudaPartitioner(target="h100")]

    def lowered(partitioner: CpuPartitioner | CudaPartitioner) -> bytes:
        with torch.no_grad():
            return bytes(lower(model, example, partitioner=partitioner).buffer)

    alone = [lowered(one) for one in partitioners]
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lowered, partitioners)) == alone
