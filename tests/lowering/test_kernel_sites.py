"""Marks around the kernels of a wrapper, and what a program says that they come from."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy
import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from profiling_support import Attention
from support import lower
from torch import nn
from torch._decomp import get_decompositions

from aoti_plugins import CpuPartitioner, CudaPartitioner
from aoti_plugins.cli._pte import inspect_program
from aoti_plugins.lowering.inductor.kernel_sites import KernelSite, with_marks
from aoti_plugins.lowering.kernel_origins import short_line
from aoti_plugins.lowering.origins import Origins, forget_histories
from aoti_plugins.runtime import Program

SITE = KernelSite("", (), 8, 4, 0)
OTHER = dataclasses.replace(SITE, flops=7)
WRAPPER = """
    AtenTensorHandle buf1_handle;
    // [Provenance debug handles] cpp_fused_relu_0:1
    AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(1, sizes, strides, 6, 0, 0, &buf1_handle));
    cpp_fused_relu_0((float*)(arg0_1.data_ptr()), (float*)(buf1.data_ptr()));
    // [Provenance debug handles] extern_kernels.mm:0
    AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_cpu_mm_out(buf2, buf1, arg1_1));
    arg1_1.reset();
    cpp_fused_relu_0((float*)(buf2.data_ptr()), (float*)(buf3.data_ptr()));
"""


def test_the_call_behind_a_comment_is_marked() -> None:
    marked, sites = with_marks(WRAPPER, [OTHER, SITE])
    assert [(one.name, one.flops) for one in sites] == [
        ("cpp_fused_relu_0:0", 0),
        ("aoti_torch_cpu_mm_out:1", 7),
    ]
    lines = [line.strip() for line in marked.splitlines()]
    at = lines.index('AOTIP_KERNEL_BEGIN("cpp_fused_relu_0:0");')
    assert lines[at + 1].startswith("cpp_fused_relu_0((float*)(arg0_1")
    assert lines[at + 2] == "AOTIP_KERNEL_END();"
    assert lines[at - 1].startswith("AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided")
    # A call without a comment, and all else, is as it was.
    unmarked = [line for line in lines if "AOTIP_" not in line]
    assert unmarked == [line.strip() for line in WRAPPER.splitlines() if "Provenance" not in line]


LAUNCHES = """
    // [Provenance debug handles] triton_poi_fused_relu_0:0
    int64_t stream_number = 0;
    call_triton_poi_fused_relu_0(arg0_1, buf1, 4L, this->device_idx_, stream, kernels);
    // [Provenance debug handles] mps_lib_3:1
    auto mps_lib_3_lambda = [&](AOTIMetalKernelFunctionHandle handle) {
        aoti_torch_mps_start_encoding(handle);
    };
    aoti_torch_mps_run_command_block(get_mps_lib_2_handle(), callback, &wrapper_2);
    aoti_torch_mps_run_command_block(get_mps_lib_3_handle(), callback, &wrapper_3);
"""


def test_a_kernel_of_a_gpu_is_marked_where_it_is_launched() -> None:
    marked, sites = with_marks(LAUNCHES, [SITE, OTHER])
    assert [(one.name, one.flops) for one in sites] == [
        ("triton_poi_fused_relu_0:0", 0),
        ("mps_lib_3:1", 7),
    ]
    lines = [line.strip() for line in marked.splitlines()]
    for name, call in (("triton_poi_fused_relu_0:0", "call_triton_poi"), ("mps_lib_3:1", "lib_3")):
        at = lines.index(f'AOTIP_KERNEL_BEGIN("{name}");')
        assert call in lines[at + 1]
        assert lines[at + 2] == "AOTIP_KERNEL_END();"


@pytest.mark.parametrize("wrapper", ["", WRAPPER])
def test_without_sites_nothing_changes(wrapper: str) -> None:
    assert with_marks(wrapper, []) == (wrapper, ())


def test_a_comment_without_a_call() -> None:
    text = "    // [Provenance debug handles] cpp_fused_0:0\n    auto buf1 = std::move(buf0);"
    marked, sites = with_marks(text, [SITE])
    assert not sites
    assert "AOTIP_KERNEL" not in marked


def test_lines_hold_the_last_two_parts_of_a_path() -> None:
    line = 'File "/home/me/net/model.py", line 3, in forward: return x'
    assert short_line(line) == "net/model.py:3 in forward: return x"
    assert short_line("somewhere") == "somewhere"


class Choice(nn.Module):
    """Kernels in branches."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda y: torch.tanh(y) * 2, lambda y: y.exp() - 1, (x,))


class Rows(nn.Module):
    """A product with a number of rows that the caller chooses."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x @ self.weight)


def test_sizes_of_the_export_are_counted(tmp_path: Path) -> None:
    rows = torch.export.Dim("rows", max=64)
    exported = torch.export.export(
        Rows().eval(), (torch.ones(6, 4),), dynamic_shapes={"x": {0: rows}}
    )
    path = tmp_path / "rows.pte"
    path.write_bytes(lowered(exported))
    (delegate,) = inspect_program(path)["methods"][0]["delegates"]
    kernels = delegate["payload"]["targets"][0]["kernels"]
    assert [one["flops"] for one in kernels if one["flops"]] == [2 * 6 * 4 * 4]
    with Program(path) as program:
        method = program.method(trace=True)
        method(numpy.ones((9, 4), numpy.float32))
        ran = [event.name for event in method.events() if event.is_kernel]
    assert ran == [one["name"] for one in kernels]


def test_branches(tmp_path: Path) -> None:
    """What a branch computes is seen when it is taken, and results are as without a watch."""
    path = tmp_path / "choice.pte"
    x = torch.linspace(-1, 2, 6)
    path.write_bytes(lowered(torch.export.export(Choice().eval(), (x,))))
    with Program(path) as program:
        method = program.method(trace=True)
        for value in (x, -x):
            torch.testing.assert_close(method(value)[0], Choice()(value))
            assert [event for event in method.events() if event.is_kernel]


def lowered(exported: torch.export.ExportedProgram) -> bytes:
    edge = to_edge_transform_and_lower(exported, partitioner=[CpuPartitioner()])
    return bytes(edge.to_executorch().buffer)


class Sorted(nn.Module):
    """A kernel with two results, whose buffer has neither size nor dtype."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, order = torch.sort(x, dim=-1)
        return values * 2, order


def test_a_kernel_with_two_results(tmp_path: Path) -> None:
    path = tmp_path / "sorted.pte"
    x = torch.tensor([[3.0, 1.0, 2.0]])
    path.write_bytes(lowered(torch.export.export(Sorted().eval(), (x,))))
    with Program(path) as program:
        method = program.method(trace=True)
        torch.testing.assert_close(method(x), Sorted()(x))
        assert any("sort" in event.name for event in method.events() if event.is_kernel)
    (delegate,) = inspect_program(path)["methods"][0]["delegates"]
    (sort,) = (one for one in delegate["payload"]["targets"][0]["kernels"] if "sort" in one["name"])
    assert (sort["nbytes_read"], sort["nbytes_written"]) == (3 * 4, 3 * 4 + 3 * 8)


def test_histories_begin_at_the_partition() -> None:
    """A node made of one of the partition's is still known by it, and nothing older is copied."""

    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.gelu(x + 1)

    program = torch.export.export(Model(), (torch.ones(3),)).run_decompositions({})
    nodes = list(program.graph.nodes)
    assert any("from_node" in node.meta for node in nodes)
    origins = Origins(program)
    forget_histories(program)
    assert not any("from_node" in node.meta for node in nodes)
    gelu = next(node for node in nodes if node.target is torch.ops.aten.gelu.default)
    parts = program.run_decompositions(get_decompositions([torch.ops.aten.gelu.default]))
    made = [node for node in parts.graph.nodes if origins.of(node) == (gelu,)]
    assert len(made) > 3
    assert f"aten.gelu.default (node '{gelu.name}')" in origins.described(made[-1])


def test_what_a_kernel_does_not_write_is_not_shown(tmp_path: Path) -> None:
    """Where nobody reads a sum as it is, Inductor has its memory as an argument and no store.

    What the kernel writes instead is the sum's transpose, for the convolution.
    """
    x = torch.linspace(-1, 1, 160).reshape(2, 5, 16)
    partitioner = CudaPartitioner(target="h100", keep_sources=str(tmp_path))
    lower(Attention().eval(), (x,), partitioner=partitioner)
    (wrapper,) = tmp_path.glob("*/wrapper.cpp")
    shown = re.findall(r'AOTIP_KERNEL_OUTPUT\("(\w+):', wrapper.read_text())
    assert any("layer_norm" in name for name in shown)
    assert any("addmm" in name for name in shown)
    assert not any("fused_add_addmm_convolution_transpose" in name for name in shown)


class Batches(nn.Module):
    """A linear layer over three dimensions, of which a product over two and a view are made."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.linear(x)).sum(-1)


@pytest.mark.parametrize("is_fixed", [True, False])
def test_a_view_is_shown_with_sizes_that_are_known(is_fixed: bool, tmp_path: Path) -> None:
    """Inspector would broadcast a buffer of other sizes than the op's result."""
    sizes = None if is_fixed else {"x": {0: torch.export.Dim("batch", max=64)}}
    exported = torch.export.export(Batches().eval(), (torch.ones(3, 5, 4),), dynamic_shapes=sizes)
    edge = to_edge_transform_and_lower(
        exported, partitioner=[CpuPartitioner(keep_sources=str(tmp_path))]
    )
    edge.to_executorch()
    (wrapper,) = tmp_path.glob("*/wrapper.cpp")
    marks = re.findall(r'AOTIP_KERNEL_OUTPUT\("([\w:.]+)", \w+, ([^)]*)\)', wrapper.read_text())
    products = [shape for name, shape in marks if "mm" in name]
    assert products == (["3, {3, 5, 6}"] if is_fixed else [])
    assert [shape for name, shape in marks if "mm" not in name] == (
        ["2, {3, 5}"] if is_fixed else ["-1, {}"]
    )
