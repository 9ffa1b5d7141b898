"""Ops that only a decomposition brings into a CUDA program."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from decomposed import ATEN, check
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from support import lower

from aoti_plugins import CudaPartitioner
from aoti_plugins.lowering.decompositions import CUDA_DECOMPOSITIONS


class Decomposed(torch.nn.Module):
    """Decomposed ops in one program, so that it is compiled once."""

    def __init__(self) -> None:
        super().__init__()
        self.means = torch.nn.EmbeddingBag(9, 4, mode="mean")
        self.maxima = torch.nn.EmbeddingBag(9, 4, mode="max", padding_idx=1)
        self.table, self.of = torch.randn(9, 4), torch.tensor([3, 1])

    def forward(self, x: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor) -> Any:
        functional = torch.nn.functional
        return (
            functional.adaptive_avg_pool3d(x, (3, 2, 4)),
            functional.adaptive_max_pool3d(x, (2, 3, 5)),
            functional.avg_pool3d(x, 4, 2),
            *torch.median(x, 1),
            self.means(indices, offsets),
            self.maxima(indices, offsets),
            functional.embedding_bag(indices, self.table, offsets),
            functional.embedding_bag(self.of, self.table, offsets[:2], mode="max"),
            torch.index_put(x[0, 0, 0], (offsets, offsets), x[0, 0, 1, 0, : len(offsets)]),
            x[0, 0, 0].index_copy(1, offsets, x[0, 0, 1, :, : len(offsets)]),
        )


def test_the_whole_graph_is_delegated() -> None:
    inputs = (torch.randn(2, 3, 7, 8, 9), torch.tensor([1, 2, 3, 3, 8]), torch.tensor([0, 2, 2]))
    lowered = lower(Decomposed().eval(), inputs, partitioner=CudaPartitioner(target="h100"))
    plan = lowered.executorch_program.execution_plan[0]
    assert [f"{op.name}.{op.overload}" for op in plan.operators] == []
    assert len(plan.delegates) == 1


def test_searches_are_as_pytorch_does_them(tmp_path: Path) -> None:
    class Search(torch.nn.Module):
        def forward(self, rows: torch.Tensor, x: torch.Tensor) -> Any:
            return torch.searchsorted(rows[1:], x), torch.searchsorted((rows * 2)[2:], x)

    partitioner = CudaPartitioner(target="h100", keep_sources=str(tmp_path))
    lower(Search(), (torch.arange(9.0), torch.randn(4)), partitioner=partitioner)
    code = "".join(path.read_text() for path in tmp_path.rglob("wrapper.cpp"))
    assert code.count("bucketize_binary_search(") == 2
    assert "isnan(" in code


NARROW = (torch.int8, torch.uint8, torch.int16)


@pytest.mark.filterwarnings("ignore:The reduce argument of torch.scatter:UserWarning")  # eager's
@pytest.mark.parametrize("dtype", NARROW)
def test_sums_of_narrow_integers(dtype: torch.dtype) -> None:
    x = torch.arange(100, 106, dtype=dtype).reshape(2, 3)
    index = torch.tensor([[0, 0, 0], [1, 1, 0]])
    src = torch.full((2, 3), 100, dtype=dtype)  # int8 and uint8 wrap around
    check(ATEN.scatter_add.default, x, 1, index, src)
    check(ATEN.scatter_reduce.two, x, 0, index, src, "sum")
    check(ATEN.scatter_reduce.two, x, 0, index, src, "sum", include_self=False)
    check(ATEN.scatter.reduce, x, 1, index, src, reduce="add")
    check(ATEN.scatter.value_reduce, x, 1, index, 100, reduce="add")
    assert CUDA_DECOMPOSITIONS[ATEN.scatter_add.default](x.int(), 1, index, src.int()) is (
        NotImplemented
    )
    for how in ("prod", "amax"):
        found = CUDA_DECOMPOSITIONS[ATEN.scatter_reduce.two](x, 1, index, src, how)
        assert found is NotImplemented


class NarrowSums(torch.nn.Module):
    """Integers of 8 and 16 bits added up at places that only the data knows."""

    def forward(self, x: torch.Tensor, index: torch.Tensor) -> list[torch.Tensor]:
        narrow = [x.to(dtype) for dtype in NARROW]
        return [
            found
            for one in narrow
            for found in (
                one.scatter_add(1, index, one),
                one.scatter_reduce(1, index, one, "sum"),
                one.scatter(1, index, 3, reduce="add"),
                one.index_add(0, index[0], one),
            )
        ]


def test_sums_of_narrow_integers_are_delegated_whole() -> None:
    inputs = (torch.ones(2, 2, dtype=torch.int32), torch.tensor([[0, 1], [1, 1]]))
    lowered = lower(NarrowSums(), inputs, partitioner=CudaPartitioner(target="h100"))
    assert lowered.executorch_program.execution_plan[0].operators == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_digamma(dtype: torch.dtype) -> None:
    x = torch.cat([torch.linspace(-20.3, 30, 997), torch.tensor([0.0, -0.0, -1, -7, 1e20])])
    check(ATEN.digamma.default, x.to(dtype))
    check(ATEN.digamma.default, torch.tensor([math.inf, math.nan, 1e-30], dtype=dtype))


class Special(torch.nn.Module):
    """Special functions that Inductor has for GPUs, and ones that it has for CPUs only."""

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        here = [torch.digamma(x), torch.special.i0(x), torch.special.erfcx(x), torch.lgamma(x)]
        return [*here, torch.special.zeta(x, x), torch.special.i1e(x), torch.special.ndtri(x)]


def test_special_functions_that_triton_lacks_stay_outside() -> None:
    edge = to_edge_transform_and_lower(
        torch.export.export(Special(), (torch.rand(3),)),
        partitioner=[CudaPartitioner(target="h100", allow_missing_kernels=True)],
        compile_config=EdgeCompileConfig(_check_ir_validity=False),
    )
    calls = [str(node.target) for node in edge.exported_program().graph.nodes]
    outside = {call.split(".")[1].removeprefix("special_") for call in calls if "aten" in call}
    assert outside == {"zeta", "i1e", "ndtri"}
