"""Kernels that passes put in the place of ops say which ops these were."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from decoder_blocks import Block
from executorch.exir import to_edge_transform_and_lower
from expert_blocks import WIDTH, Experts
from torch import nn

from aoti_plugins import CudaPartitioner
from aoti_plugins.lowering.support import op_name


def block() -> nn.Module:
    options = {"joined": True, "inside": False, "bias": False, "width": WIDTH, "hidden": 2048}
    return Block(activation=nn.SiLU(), **options).bfloat16().eval()


@pytest.mark.parametrize(
    ("make", "kernel", "ops"),
    [
        (
            block,
            "row_linear",
            [
                {"aten.linear.default", "aten.mul.Tensor"},
                {"aten.linear.default", "aten.add.Tensor"},
            ],
        ),
        (
            Experts,
            "expert_linear",
            [
                {"aten.bmm.default", "aten.squeeze_copy.dim", "aten.mul.Tensor"},
                {
                    "aten.bmm.default",
                    "aten.squeeze_copy.dim",
                    "aten.sum.dim_IntList",
                    "aten.add.Tensor",
                },
            ],
        ),
    ],
)
def test_all_kernels_have_handles(
    make: Callable[[], nn.Module], kernel: str, ops: list[set[str]]
) -> None:
    exported = torch.export.export(make(), (torch.randn(1, 1, WIDTH).bfloat16(),))
    edge = to_edge_transform_and_lower(exported, partitioner=[CudaPartitioner(target="h100")])
    module = edge.exported_program().graph_module
    (delegate,) = (one for _, one in module.named_modules() if hasattr(one, "processed_bytes"))
    names = {
        node.meta["debug_handle"]: op_name(node)
        for node in delegate.original_module.graph.nodes
        if node.op == "call_function" and "debug_handle" in node.meta
    }
    handles = {
        name: {names[one] for one in found}
        for name, found in delegate.meta["debug_handle_map"].items()
        if f"cuda_{kernel}" in name and ".buf" not in name
    }
    assert all(handles.values())
    assert list(handles.values()) == ops
