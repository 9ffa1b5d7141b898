"""What generated code divides by when sizes are dynamic: a size may be 0."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from torch import Tensor, nn
from torch.export import Dim, export

from aoti_plugins import CudaPartitioner

_DIVISION = re.compile(
    r"div_floor_integer\(static_cast<int64_t>\(([^()]*)\), static_cast<int64_t>\(([^()]*)\)\)"
)


class Attention(nn.Module):
    """Queries of which there may be few or many: a kernel for each, one of them without blocks."""

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return nn.functional.scaled_dot_product_attention(query, key, key)


@pytest.mark.parametrize("most", [8, 512])
def test_no_size_is_divided_by(most: int, tmp_path: Path) -> None:
    inputs = torch.randn(1, 4, 3, 64), torch.randn(1, 4, 128, 64)
    shapes = ({2: Dim("rows", max=most)}, None)
    partitioner = CudaPartitioner(target="h100", keep_sources=str(tmp_path))
    to_edge_transform_and_lower(
        export(Attention(), inputs, dynamic_shapes=shapes), partitioner=[partitioner]
    )
    (wrapper,) = tmp_path.glob("*/wrapper.cpp")
    divisors = {divisor for _, divisor in _DIVISION.findall(wrapper.read_text())}
    assert divisors
    assert all(re.match(r"\d+L( \+ |$)", divisor) for divisor in divisors), divisors
