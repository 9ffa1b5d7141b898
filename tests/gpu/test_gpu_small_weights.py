"""Products with weights of 4 and 8 bits on a GPU: as exact as those of 16 bits."""

from __future__ import annotations

import copy

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from small_weight_cases import CONFIGS, WIDTH, dequantised, quantised
from torch.export import Dim, export

from aoti_plugins import CudaPartitioner
from aoti_plugins.runtime import Program

pytestmark = pytest.mark.gpu

MOST_ROWS = 64
ROWS = (1, 2, 8, 9, 16, 17, MOST_ROWS)


@pytest.mark.parametrize("graphs", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", CONFIGS)
def test_errors_are_those_of_16_bits(name: str, dtype: torch.dtype, graphs: bool) -> None:
    model = quantised(name, dtype)
    exact = dequantised(model).cuda()
    plain = copy.deepcopy(exact).to(dtype)
    rows = Dim("rows", min=1, max=MOST_ROWS)
    exported = export(model, (torch.randn(8, WIDTH).to(dtype),), dynamic_shapes=({0: rows},))
    edge = to_edge_transform_and_lower(exported, partitioner=[CudaPartitioner()])
    options = {"AotiCudaBackend": {"cuda_graphs": graphs}}
    with Program(bytes(edge.to_executorch().buffer)) as program:
        method = program.method(options=options)
        for count in ROWS:
            x = torch.randn(count, WIDTH, device="cuda").to(dtype)
            with torch.no_grad():
                expected, usual = exact(x.double()), plain(x).double()
            for _ in range(3 if graphs else 1):
                (found,) = method(x)
                error = (found.double() - expected).norm()
                assert error <= 1.2 * (usual - expected).norm(), (count, error)
