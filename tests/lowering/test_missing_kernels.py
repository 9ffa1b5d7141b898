"""A program that ExecuTorch could not load is an error when it is lowered."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from torch import Tensor

from aoti_plugins import CpuPartitioner, CudaPartitioner, LoweringError, MpsPartitioner

PARTITIONERS = {"cpu": CpuPartitioner, "cuda": CudaPartitioner, "mps": MpsPartitioner}


@pytest.fixture(scope="module")
def twice() -> Iterator[None]:
    """An op with a form that writes to an output, for which nobody has a kernel."""
    with torch.library._scoped_library("aoti_plugins_missing", "DEF") as library:
        library.define("twice(Tensor self) -> Tensor")
        library.define("twice.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)")
        for key in ("CPU", "Meta"):
            library.impl("twice", lambda x: torch.empty_like(x), key)
        yield


class Twice(torch.nn.Module):
    """Two delegates with the op between them."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.aoti_plugins_missing.twice(x.relu()).sin()


class RunningSum(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.relu().cumsum(0)


def left_outside(model: torch.nn.Module, *partitioners: object) -> list[str]:
    exported = torch.export.export(model, (torch.ones(3),))
    edge = to_edge_transform_and_lower(exported, partitioner=list(partitioners))
    nodes = edge.exported_program().graph.nodes
    return [str(n.target) for n in nodes if n.op == "call_function" and "delegate" not in n.name]


@pytest.mark.usefixtures("twice")
@pytest.mark.parametrize("device", PARTITIONERS)
def test_lowering_ends_with_what_is_missing(device: str) -> None:
    with pytest.raises(LoweringError) as raised:
        left_outside(Twice(), PARTITIONERS[device]())
    message = str(raised.value)
    assert message.startswith("ExecuTorch has no kernel for what is in no delegate")
    assert "- aoti_plugins_missing.twice.default (node" in message
    assert "ExecuTorch has no kernel aoti_plugins_missing::twice.out either" in message
    assert "test_missing_kernels.py" in message
    assert message.endswith("give the partitioner allow_missing_kernels=True.")


@pytest.mark.usefixtures("twice")
def test_it_goes_on_where_that_is_wanted() -> None:
    outside = left_outside(Twice(), CpuPartitioner(allow_missing_kernels=True))
    assert any("twice" in target for target in outside)


def test_what_executorch_can_run_is_no_error() -> None:
    outside = left_outside(RunningSum(), CpuPartitioner(exclude=["aten.cumsum.default"]))
    assert any("cumsum" in target for target in outside)


def test_what_the_next_partitioner_takes_is_no_error() -> None:
    first = CpuPartitioner(exclude=["aten.cdist.default", "aten.relu.default"])
    outside = left_outside(RunningSum(), first, CpuPartitioner())
    assert not any("relu" in target for target in outside)
