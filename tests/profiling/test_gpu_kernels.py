"""Kernels of GPUs in profiles: CUDA's as lowered, Metal's run over the stand-in."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
import torch
from click.testing import CliRunner
from mps_support import HostTarget, stand_in
from profiling_support import Block
from support import lower

from aoti_plugins import CudaPartitioner, MpsPartitioner
from aoti_plugins.cli._pte import inspect_program
from aoti_plugins.cli.app import app
from aoti_plugins.plugin_system.manager import get_manager

X = torch.ones(3, 8)


@pytest.fixture(scope="module")
def metal(shared_dir: Path) -> Iterator[None]:
    """Metal's stand-in, and this machine as a target for it."""
    with (
        get_manager().registered(HostTarget(), "host-target"),
        mock.patch.dict(os.environ, stand_in(shared_dir)),
    ):
        yield


def check_kernels(kernels: list[dict[str, list[str]]]) -> None:
    """The product, the convolution and what is fused are there, and where each is from."""
    ops = [set(one["ops"]) for one in kernels]
    assert any("aten.linear.default" in one for one in ops)
    assert any("aten.conv1d.default" in one for one in ops)
    assert any("aten.softmax.int" in one or "aten._softmax.default" in one for one in ops)
    modules = {module for one in kernels for module in one["modules"]}
    assert {"project (Linear)", "smooth (Conv1d)"} <= modules
    assert all(one["lines"] for one in kernels)


def test_a_program_for_cuda_names_its_kernels(tmp_path: Path) -> None:
    path = tmp_path / "block.pte"
    path.write_bytes(lower(Block().eval(), (X,), partitioner=CudaPartitioner(target="h100")).buffer)
    (delegate,) = inspect_program(path)["methods"][0]["delegates"]
    kernels = delegate["payload"]["targets"][0]["kernels"]
    check_kernels(kernels)
    names = [one["name"].partition(":")[0] for one in kernels]
    assert any(name.startswith("triton_") for name in names)
    assert "aoti_torch_cuda_convolution" in names


@pytest.mark.usefixtures("metal", "restored_logging")
def test_a_program_for_an_apple_gpu_is_profiled(tmp_path: Path) -> None:
    path = tmp_path / "block.pte"
    path.write_bytes(lower(Block().eval(), (X,), partitioner=MpsPartitioner(target="host")).buffer)
    trace = tmp_path / "trace.json"
    options = ("--repeat", "3", "--trace", str(trace), "--json")
    done = CliRunner().invoke(app, ["profile", str(path), *options])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    check_kernels(found["kernels"])
    assert all(one["seconds"] > 0 and one["launches"] == 1 for one in found["kernels"])
    # On the GPU's clock, which is the host's: each kernel ran within the call of its delegate.
    events = [one for one in json.loads(trace.read_text())["traceEvents"] if one["ph"] == "X"]
    calls = {one["args"]["call"]: one for one in events if one["name"] == "DELEGATE_CALL"}
    kernels = [one for one in events if one["cat"] == "kernel"]
    assert len(kernels) == 3 * len(found["kernels"])
    for one in kernels:
        call = calls[one["args"]["call"]]
        assert call["ts"] <= one["ts"]
        assert one["ts"] + one["dur"] <= call["ts"] + call["dur"]
