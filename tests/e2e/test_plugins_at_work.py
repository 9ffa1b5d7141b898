"""Plugins change what is lowered: kernels of their own, passes, names, data files."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from support import lower
from torch import nn

from aoti_plugins import native_files
from aoti_plugins.blob_names import ReadableNames
from aoti_plugins.cpu.target import host_machine
from aoti_plugins.errors import ProgramError
from aoti_plugins.hooks import hookimpl
from aoti_plugins.lowering.artifacts.cxx import cxx_compiler
from aoti_plugins.plugin_system.manager import get_manager
from aoti_plugins.runtime import Program
from aoti_plugins.types import CShim, FallbackKernel, GraphPass, LinkedObjects, SharedLibrary

DECLARATION = (
    "AOTITorchError aoti_torch_cpu_cube("
    "AtenTensorHandle self, double scale, AtenTensorHandle* ret0)"
)
SOURCE = """
#include <aoti_plugins/shim.h>

extern "C" __attribute__((visibility("default"))) AOTITorchError aoti_torch_cpu_cube(
    AtenTensorHandle self, double scale, AtenTensorHandle* ret0) {
  int64_t numel = 0;
  void* from = nullptr;
  void* to = nullptr;
  if (aoti_torch_get_numel(self, &numel) || aoti_torch_clone(self, ret0) ||
      aoti_torch_get_data_ptr(self, &from) || aoti_torch_get_data_ptr(*ret0, &to)) {
    return 1;
  }
  for (int64_t i = 0; i < numel; ++i) {
    const float x = static_cast<float*>(from)[i];
    static_cast<float*>(to)[i] = static_cast<float>(scale) * x * x * x;
  }
  return 0;
}
"""


class Kernel:
    """A plugin with one fallback kernel."""

    def __init__(self, provider: Any) -> None:
        self._kernel = FallbackKernel(
            "aoti_plugins_test::cube",
            (CShim("aoti_torch_cpu_cube", DECLARATION),),
            dtypes=("float32",),
            provider=provider,
        )

    @hookimpl
    def aoti_fallback_kernels(self, device: str) -> list[FallbackKernel]:
        return [self._kernel] if device == "cpu" else []


class Cube(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.aoti_plugins_test.cube(x + 1, 2.0).relu()


@pytest.fixture(scope="module", autouse=True)
def cube_op() -> Iterator[None]:
    with torch.library._scoped_library("aoti_plugins_test", "DEF") as library:
        library.define("cube(Tensor self, float scale) -> Tensor")
        library.impl("cube", lambda x, scale: scale * x**3, "CPU")
        library.impl("cube", lambda x, scale: torch.empty_like(x), "Meta")
        # ExecuTorch looks for the form with an output as it plans memory.
        library.define("cube.out(Tensor self, float scale, *, Tensor(a!) out) -> Tensor(a!)")
        library.impl("cube.out", lambda x, scale, out: out.copy_(scale * x**3), "CPU")
        yield


def _compile(folder: Path, name: str, *flags: str) -> Path:
    source = folder / "cube.cpp"
    source.write_text(SOURCE)
    prelude = ["-I", str(native_files.include_dir()), "-include", "aoti_plugins/blob_prelude.h"]
    command = [*cxx_compiler(host_machine()), "-O2", "-fPIC", *prelude, str(source), *flags]
    subprocess.run([*command, "-o", str(folder / name)], check=True)
    return folder / name


def test_kernel_linked_into_the_blob(tmp_path: Path) -> None:
    objects = LinkedObjects((str(_compile(tmp_path, "cube.o", "-c")),))
    x = torch.randn(5)
    with get_manager().registered(Kernel(objects), "cubes"):
        lowered = lower(Cube(), (x,))
    (plan,) = lowered.executorch_program.execution_plan
    assert [d.id for d in plan.delegates] == ["AotiCpuBackend"]
    assert not plan.operators
    with Program(bytes(lowered.buffer)) as program:
        torch.testing.assert_close(program(x)[0], Cube()(x))


def test_kernel_in_a_library_of_its_own(tmp_path: Path, run_python: Any) -> None:
    soname = "libcubes.so.1"
    runtime = native_files.library("libexecutorch_backend_aoti.so")
    path = _compile(tmp_path, soname, "-shared", f"-Wl,-soname,{soname}", str(runtime))
    provider = SharedLibrary(str(path), soname, "1.2")
    x = torch.randn(5)
    with get_manager().registered(Kernel(provider), "cubes"):
        lowered = lower(Cube(), (x,))
    program = tmp_path / "cube.pte"
    program.write_bytes(bytes(lowered.buffer))
    with Program(program) as loaded, pytest.raises(ProgramError) as caught:
        loaded.method()
    for word in (soname, "1.2", "cubes"):
        assert word in str(caught.value)
    printed = run_python(
        "import sys, numpy; from aoti_plugins.runtime import Program\n"
        "print(Program(sys.argv[1])(numpy.array([0, 1, 2, 3, 4], numpy.float32))[0].tolist())",
        program,
        LD_LIBRARY_PATH=str(tmp_path),
    )
    assert "[2.0, 16.0, 54.0, 128.0, 250.0]" in printed


def test_without_the_kernel_the_op_stays_outside(caplog: pytest.LogCaptureFixture) -> None:
    from executorch.exir import to_edge_transform_and_lower

    from aoti_plugins import CpuPartitioner

    exported = torch.export.export(Cube(), (torch.randn(5),))
    partitioner = CpuPartitioner(allow_missing_kernels=True)
    edge = to_edge_transform_and_lower(exported, partitioner=[partitioner])
    left = [str(n.target) for n in edge.exported_program().graph.nodes if n.op == "call_function"]
    assert any("cube" in target for target in left)
    message = "\n".join(record.getMessage() for record in caplog.records)
    assert "aoti_plugins_test.cube.default" in message
    assert "it has no C shim" in message


class Softer:
    """A plugin with a pass that replaces relu by sigmoid."""

    @hookimpl
    def aoti_graph_passes(self, device: str) -> list[GraphPass]:
        return [
            GraphPass("test.softer", self._run, after=("aoti_plugins.restore_views",)),
        ]

    @staticmethod
    def _run(program: torch.export.ExportedProgram) -> None:
        for node in program.graph.nodes:
            if node.target == torch.ops.aten.relu.default:
                node.target = torch.ops.aten.sigmoid.default
        program.graph_module.recompile()


def test_pass_of_a_plugin() -> None:
    x = torch.randn(5)
    with get_manager().registered(Softer(), "softer"):
        lowered = lower(nn.ReLU(), (x,))
    with Program(bytes(lowered.buffer)) as program:
        torch.testing.assert_close(program(x)[0], torch.sigmoid(x))


class Reads:
    """A plugin with a pass that reads the Python code of a graph."""

    code = ""

    @hookimpl
    def aoti_graph_passes(self, device: str) -> list[GraphPass]:
        return [GraphPass("test.reads", self._run, after=("aoti_plugins.restore_views",))]

    def _run(self, program: torch.export.ExportedProgram) -> None:
        self.code = program.graph_module.code


def test_pass_of_a_plugin_finds_the_code_of_the_graph() -> None:
    reads = Reads()
    with get_manager().registered(reads, "reads"):
        lower(nn.ReLU(), (torch.randn(5),))
    assert "torch.ops.aten.relu.default(" in reads.code


def test_readable_names_and_a_data_file(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = nn.Linear(8, 3).eval(), torch.randn(2, 8)
    with get_manager().registered(ReadableNames(), "readable"):
        lowered = lower(model, (x,))
    lowered.write_tensor_data_to_file(str(tmp_path))
    program = tmp_path / "linear.pte"
    program.write_bytes(bytes(lowered.buffer))
    data = tmp_path / "aoti_cpu_blob.ptd"
    assert b"forward_so_blob" in data.read_bytes()
    assert b"forward_weights_blob" in data.read_bytes()
    with Program(program, data_files=[data]) as loaded, torch.no_grad():
        torch.testing.assert_close(loaded(x)[0], model(x))
    with Program(program) as loaded, pytest.raises(ProgramError, match="forward_so_blob"):
        loaded.method()


def test_weights_in_a_data_file(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = nn.Linear(64, 64).eval(), torch.randn(2, 64)
    lowered = lower(model, (x,), external_data=True)
    lowered.write_tensor_data_to_file(str(tmp_path))
    program = tmp_path / "linear.pte"
    program.write_bytes(bytes(lowered.buffer))
    weights = model.weight.detach().numpy().tobytes()
    assert weights in (tmp_path / "aoti_cpu_blob.ptd").read_bytes()
    assert weights not in program.read_bytes()
    with Program(program, data_files=[tmp_path / "aoti_cpu_blob.ptd"]) as loaded, torch.no_grad():
        torch.testing.assert_close(loaded(x)[0], model(x))
