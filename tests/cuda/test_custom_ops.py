"""Ops without a C shim: what a package has to bring for each device, and what is said without."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from executorch.exir import to_edge
from support import lower
from torch import nn

from aoti_plugins import CpuPartitioner, CudaPartitioner, MpsPartitioner
from aoti_plugins.hooks import hookimpl
from aoti_plugins.plugin_system.manager import get_manager

PARTITIONERS = {
    "cpu": CpuPartitioner,
    "cuda": lambda: CudaPartitioner(target="h100"),
    "mps": MpsPartitioner,
}


@triton.jit
def doubling_kernel(x_ptr, out_ptr, numel, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < numel) * 2, mask=at < numel)


def doubled(x: torch.Tensor) -> torch.Tensor:
    x = x.contiguous()
    out = torch.empty_like(x)
    launch = torch.library.wrap_triton(doubling_kernel)[(triton.cdiv(x.numel(), 256),)]
    launch(x, out, x.numel(), block=256)
    return out


class Doubling(nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self._op = getattr(torch.ops.aoti_plugins_custom, name)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._op(x + 1)


@pytest.fixture(scope="session", autouse=True)
def ops() -> Iterator[None]:
    """One op of eager PyTorch, one that is a Triton kernel.

    Of the session: where tests of this module run in two turns of a process, as when another one
    gives them away, PyTorch would still hold the ops of the first turn, which are gone.
    """
    with torch.library._scoped_library("aoti_plugins_custom", "FRAGMENT") as library:
        library.define("plain(Tensor x) -> Tensor")
        library.impl("plain", lambda x: x * 2, "CPU")
        library.impl("plain", torch.empty_like, "Meta")
        torch.library.triton_op("aoti_plugins_custom::kernel", doubled, mutates_args=())
        yield


class Decompositions:
    """A plugin that gives the plain op its Triton kernel."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @hookimpl
    def aoti_decompositions(self, device: str) -> dict[Any, Any]:
        op = torch.ops.aoti_plugins_custom.plain.default
        return {op: self._function} if device == "cuda" else {}


def delegated(device: str, op: str) -> bool:
    """Whether the partitioner takes the op; nothing is compiled."""
    exported = torch.export.export(Doubling(op), (torch.ones(8),))
    program = to_edge(exported).exported_program()
    tagged = PARTITIONERS[device]().partition(program).tagged_exported_program
    (node,) = [n for n in tagged.graph.nodes if op in str(n.target) and n.op == "call_function"]
    return "delegation_tag" in node.meta


@pytest.mark.parametrize("device", PARTITIONERS)
def test_an_op_that_nobody_knows_is_left_out(device: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "aoti_plugins"):
        assert not delegated(device, "plain")
    (message,) = [r.getMessage() for r in caplog.records if r.name.startswith("aoti_plugins")]
    assert f"stay outside the {device} delegate" in message
    assert "it has no C shim; libtorch would run aoti_plugins_custom::plain" in message
    assert "aoti_fallback_kernels, aoti_decompositions" in message


@pytest.mark.parametrize("device", ["cpu", "mps"])
def test_a_triton_kernel_is_for_nvidia(device: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "aoti_plugins"):
        assert not delegated(device, "kernel")
    (message,) = [r.getMessage() for r in caplog.records if r.name.startswith("aoti_plugins")]
    assert "it launches the Triton kernel 'doubling_kernel', for NVIDIA GPUs only" in message
    assert "a plugin with a decomposition for it" in message


def test_a_triton_op_needs_nothing_for_cuda() -> None:
    assert delegated("cuda", "kernel")


def test_a_decomposition_may_call_a_triton_op() -> None:
    plugin = Decompositions(lambda x: torch.ops.aoti_plugins_custom.kernel(x))
    with get_manager().registered(plugin, "doubling"):
        program = lower(Doubling("plain"), (torch.ones(8),), partitioner=PARTITIONERS["cuda"]())
    (plan,) = program.executorch_program.execution_plan
    assert [d.id for d in plan.delegates] == ["AotiCudaBackend"]
    assert not plan.operators
    assert b"doubling_kernel" in bytes(program.buffer)


def test_a_decomposition_may_not_launch_a_kernel_itself(caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.WARNING, "aoti_plugins"),
        get_manager().registered(Decompositions(doubled), "doubling"),
    ):
        assert not delegated("cuda", "plain")
    (message,) = [r.getMessage() for r in caplog.records if r.name.startswith("aoti_plugins")]
    assert (
        "it launches the Triton kernel 'doubling_kernel', which a decomposition cannot" in message
    )
    assert "torch.library.triton_op" in message
