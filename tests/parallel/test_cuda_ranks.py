"""Programs for several ranks, lowered for GPUs that are not there."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from executorch.exir._serialize._program import deserialize_pte_binary
from rank_models import Perceptron
from torch.export import export

from aoti_plugins import CudaPartitioner, parallel
from aoti_plugins.cuda import toolkit
from aoti_plugins.errors import LoweringError
from aoti_plugins.payload import PayloadFlag, decode


def test_collectives_and_weights_of_ranks(tmp_path: Path) -> None:
    try:
        toolkit.include_dir()
    except LoweringError as error:
        pytest.skip(f"toolkit.include_dir(): {error}")
    plan = {"embedding": "rowwise", "first": "colwise", "second": "rowwise"}

    def make(rank: int) -> torch.export.ExportedProgram:
        model = Perceptron().bfloat16().eval().requires_grad_(False)
        parallel.parallelize(model, plan, rank, 2)
        return export(model, (torch.arange(4),))

    partitioner = CudaPartitioner(target="h100", cuda_graphs=True, external_data="model")
    edge = to_edge_transform_and_lower(parallel.export_ranks(make, 2), partitioner=[partitioner])
    program = edge.to_executorch()
    file = deserialize_pte_binary(program.buffer)
    plan_of_method = file.program.execution_plan[0]
    assert [one.id for one in plan_of_method.delegates] == ["AotiCudaBackend"]
    assert plan_of_method.operators == []
    (delegate,) = plan_of_method.delegates
    data = file.program.backend_delegate_data[delegate.processed.index].data
    payload = decode(bytes(data))
    assert {PayloadFlag.RANKS, PayloadFlag.CUDA_GRAPHS} <= set(payload.flags)
    assert "aoti_torch_cuda_all_reduce" in payload.targets[0].symbols
    of_ranks = [one.key for one in payload.storages if one.key.endswith("@rank")]
    assert len(of_ranks) == 5  # the embedding and its first row, two weights, a bias
    assert file.named_data is not None
    tables = [key for key in file.named_data.pte_data if key.endswith("@ranks")]
    assert sorted(tables) == sorted(f"{key}s" for key in set(of_ranks))
    program.write_tensor_data_to_file(str(tmp_path))
    names = ["model.ptd", "model.rank-0.ptd", "model.rank-1.ptd"]
    assert sorted(one.name for one in tmp_path.iterdir()) == names
    for rank in range(2):
        text = (tmp_path / names[1 + rank]).read_bytes()
        assert f"@rank{rank}".encode() in text
        assert f"@rank{1 - rank}".encode() not in text
