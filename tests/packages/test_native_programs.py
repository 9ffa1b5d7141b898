"""Programs with the kernels of a native package, where that package is and where it is not."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from packages.conftest import Package, without_packages

from aoti_plugins import native_files
from aoti_plugins.cpu.target import host_machine
from aoti_plugins.lowering.artifacts.cxx import cxx_compiler

SONAME = "libother_native.so.1"
LOWER = """
import os, sys
import torch
from executorch.exir import to_edge_transform_and_lower
from other_native.op import scaled_cube
from aoti_plugins import CpuPartitioner

class Model(torch.nn.Module):
    def forward(self, x):
        return scaled_cube(x + 1, 0.5)

exported = torch.export.export(Model(), (torch.ones(2, 3),))
for form in ("linked", "library"):
    os.environ["OTHER_NATIVE_KERNELS"] = form
    edge = to_edge_transform_and_lower(exported, partitioner=[CpuPartitioner()])
    open(f"{sys.argv[1]}/{form}.pte", "wb").write(edge.to_executorch().buffer)
"""
RUN = """
import sys, numpy
from aoti_plugins.runtime import Program
print("sum", Program(sys.argv[1])(numpy.ones((2, 3), numpy.float32))[0].sum())
print("torch" in sys.modules, "other_native" in sys.modules)
"""
SUM = 2 * 3 * 0.5 * 2**3


@pytest.fixture(scope="module")
def package(new_package: Callable[[str], Package]) -> Package:
    return new_package("native")


@pytest.fixture(scope="module")
def programs(package: Package, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    done = run([sys.executable, "-c", LOWER, str(folder)], package.environment())
    assert done.returncode == 0, done.stderr
    return folder


def run(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def run_cpp(runner: Path, program: Path, *library_folders: Path) -> tuple[int, str]:
    """Run a program in C++ with this build's runtime and no hook package."""
    runtime = native_files.library("libexecutorch_backend_aoti.so").parent
    path = os.pathsep.join(map(str, (runtime, *library_folders)))
    done = run([str(runner), str(program)], without_packages(LD_LIBRARY_PATH=path))
    return done.returncode, done.stdout + done.stderr


def sums(text: str) -> list[float]:
    return [float(found) for found in re.findall(r"sum (\S+)", text)]


def check_refused(text: str) -> None:
    assert f"kernel library {SONAME} (version 1.2.0, from other-native) does not load" in text
    assert "Install other-native 1.2.0" in text


def test_linked_runs_without_the_package(cpp_runner: Path, programs: Path) -> None:
    code, text = run_cpp(cpp_runner, programs / "linked.pte")
    assert code == 0, text
    assert sums(text) == [SUM]


def test_library_is_refused_by_name_without_the_package(cpp_runner: Path, programs: Path) -> None:
    code, text = run_cpp(cpp_runner, programs / "library.pte")
    assert code == 1
    check_refused(text)


def test_library_is_found_where_the_system_looks(
    cpp_runner: Path, programs: Path, package: Package
) -> None:
    kernels = package.site / "other_native" / "kernels"
    code, text = run_cpp(cpp_runner, programs / "library.pte", kernels)
    assert code == 0, text
    assert sums(text) == [SUM]


def test_an_older_library_is_refused(cpp_runner: Path, programs: Path, tmp_path: Path) -> None:
    source = tmp_path / "older.cpp"
    source.write_text(
        'extern "C" const char* aotip_version_of_libother_native_so_1() { return "1.1.9"; }\n'
        'extern "C" int aoti_torch_cpu_scaled_cube() { return 1; }\n'
    )
    flags = ["-shared", "-fPIC", f"-Wl,-soname,{SONAME}", "-o", str(tmp_path / SONAME)]
    subprocess.run([*cxx_compiler(host_machine()), str(source), *flags], check=True)
    code, text = run_cpp(cpp_runner, programs / "library.pte", tmp_path)
    assert code == 1
    expected = f"kernel library {SONAME} (version 1.2.0, from other-native) is only version 1.1.9"
    assert expected in text
    assert "Upgrade other-native to 1.2.0." in text


def test_python_finds_the_library_in_the_package(programs: Path, package: Package) -> None:
    command = [sys.executable, "-c", RUN, str(programs / "library.pte")]
    done = run(command, package.environment())
    assert done.returncode == 0, done.stderr
    assert sums(done.stdout) == [SUM]
    assert "False False" in done.stdout  # neither torch nor the package was imported
    refused = run(command, without_packages())
    assert refused.returncode == 1
    check_refused(refused.stderr)
