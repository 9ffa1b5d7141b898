"""What lowering would do is known without compiling, and is what it does."""

from __future__ import annotations

import json
import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from executorch.exir import to_edge_transform_and_lower
from torch import nn
from torch.export import Dim, ExportedProgram, export

from aoti_plugins import CpuPartitioner, CudaPartitioner
from aoti_plugins.cli.app import app
from aoti_plugins.errors import LoweringError
from aoti_plugins.lowering.artifacts import compile_cache, shared_object
from aoti_plugins.lowering.forecast import Recorder
from aoti_plugins.plugin_system.manager import get_manager


class Layers(nn.Module):
    """Two products, and a scan between them that may stay outside."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.cumsum(self.first(x).relu(), 0))


class Eigenvalues(nn.Module):
    """An op that nobody has a kernel for."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.eigvalsh(x @ x.mT).exp()


@pytest.fixture
def layers() -> ExportedProgram:
    return export(Layers(), (torch.randn(3, 8),))


@pytest.fixture
def nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise AssertionError("it was compiled")

    monkeypatch.setattr(compile_cache, "_build", refuse)
    monkeypatch.setattr(shared_object, "cached_blob", refuse)


@pytest.mark.usefixtures("nothing_is_compiled")
def test_a_whole_model(layers: ExportedProgram) -> None:
    found = CpuPartitioner().plan(layers)
    assert found.is_whole
    assert not found.missing
    (delegate,) = found.delegates
    assert (delegate.method, delegate.inputs, delegate.outputs) == ("forward", 1, 1)
    assert delegate.ops["aten.cumsum.default"] == 1
    assert found.weights_nbytes == 4 * (8 * 8 + 8 + 8 * 4 + 4)


@pytest.mark.usefixtures("nothing_is_compiled")
def test_each_device_says_what_it_would_call(layers: ExportedProgram) -> None:
    (on_cuda,) = CudaPartitioner(target="h100").plan(layers).delegates
    assert all(shim.startswith("aoti_torch_cuda_") for shim in on_cuda.kernels)
    assert on_cuda.kernels
    (on_cpu,) = CpuPartitioner().plan(layers).delegates
    assert all(shim.startswith("aoti_torch_cpu_") for shim in on_cpu.kernels)


def test_lowering_does_what_was_said(
    layers: ExportedProgram, caplog: pytest.LogCaptureFixture
) -> None:
    partitioner = CpuPartitioner(exclude=["aten.cumsum.default"])
    with caplog.at_level(logging.WARNING, "aoti_plugins"):
        found = partitioner.plan(layers)
    assert caplog.text == ""
    assert not found.is_whole
    assert [one.op for one in found.outside["forward"]] == ["aten.cumsum.default"]
    program = to_edge_transform_and_lower(layers, partitioner=[partitioner]).to_executorch()
    plan = program.executorch_program.execution_plan[0]
    assert len(plan.delegates) == len(found.delegates) == 2
    assert [op.name for op in plan.operators] == ["aten::cumsum"]
    assert "aten.cumsum.default" in caplog.text


def test_what_nobody_runs_is_missing() -> None:
    exported = export(Eigenvalues(), (torch.randn(3, 3),))
    partitioner = CpuPartitioner()
    found = partitioner.plan(exported)
    assert {one.op for one in found.missing} == {"aten._linalg_eigh.default"}
    assert len(found.delegates) == 2
    with pytest.raises(Exception, match="_linalg_eigh"):
        to_edge_transform_and_lower(exported, partitioner=[partitioner])


def test_weights_of_several_methods_count_once() -> None:
    model = Layers()
    rows = {"x": {0: Dim("rows", max=9)}}
    methods = {
        "one": export(model, (torch.randn(1, 8),)),
        "many": export(model, (torch.randn(3, 8),), dynamic_shapes=rows),
    }
    found = CpuPartitioner().plan(methods)
    assert {one.method for one in found.delegates} == {"one", "many"}
    assert found.is_whole
    assert found.weights_nbytes == sum(one.nbytes for one in model.parameters())


def test_other_threads_go_on_lowering(layers: ExportedProgram) -> None:
    recorder = Recorder(lambda: pytest.fail("asked"))
    with ThreadPoolExecutor(1) as other:
        assert other.submit(recorder.aoti_preprocess, layers, "forward").result() is None
    assert recorder.delegates == []


def test_nothing_stays_behind(layers: ExportedProgram) -> None:
    before = [info.name for info in get_manager().plugins()]
    partitioner = CpuPartitioner()
    partitioner.plan(layers)
    assert [info.name for info in get_manager().plugins()] == before
    delegates = to_edge_transform_and_lower(layers, partitioner=[partitioner]).to_executorch()
    assert len(bytes(delegates.buffer)) > 2000


def test_bad_input_is_an_error(layers: ExportedProgram) -> None:
    with pytest.raises(LoweringError, match="exclude"):
        CpuPartitioner(exclude=["aten.nonsense"]).plan(layers)
    with pytest.raises(TypeError, match=r"torch\.export\.export gave, .* found Layers"):
        CpuPartitioner().plan(Layers())


def plan_of(tmp_path: Path, exported: Any, *options: str) -> Any:
    torch.export.save(exported, tmp_path / "model.pt2")
    return CliRunner().invoke(app, ["plan", str(tmp_path / "model.pt2"), *options])


def test_the_command_says_what_would_be_done(tmp_path: Path, layers: ExportedProgram) -> None:
    shown = plan_of(tmp_path, layers, "--ops")
    assert shown.exit_code == 0, shown.output
    assert "all of it would be delegated, with weights of 432 B" in shown.stdout
    assert "aten.cumsum.default" in shown.stdout
    told = plan_of(tmp_path, layers, "--json", "--exclude", "aten.cumsum.default")
    report = json.loads(told.stdout)
    assert not report["is_whole"]
    assert report["outside"]["forward"][0]["op"] == "aten.cumsum.default"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.pt2"]


def test_the_command_fails_where_lowering_would(tmp_path: Path) -> None:
    shown = plan_of(tmp_path, export(Eigenvalues(), (torch.randn(3, 3),)))
    assert shown.exit_code == 1
    assert "ExecuTorch has no kernel for aten._linalg_eigh.default" in shown.stdout
