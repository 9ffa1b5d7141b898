"""``aoti_plugins_add_kernels`` refuses to build a library that no program could use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from aoti_plugins.runtime import cmake_dir

PROJECT = """
cmake_minimum_required(VERSION 3.28)
project(acme VERSION 1.2.0 LANGUAGES CXX)
find_package(aoti_plugins REQUIRED COMPONENTS kernels)
aoti_plugins_add_kernels(acme DEVICE cpu SOURCES one.cpp two.cpp DESTINATION acme)
"""
KERNEL = """
#include <aoti_plugins/shim.h>
{before} AOTITorchError {name}(AtenTensorHandle self, AtenTensorHandle* ret0) {{
  return aoti_torch_clone_preserve_strides(self, ret0);
}}
"""


def build(folder: Path, **source: str) -> subprocess.CompletedProcess[str]:
    (folder / "CMakeLists.txt").write_text(PROJECT)
    (folder / "one.cpp").write_text(KERNEL.format(**source))
    (folder / "two.cpp").write_text("int something_else() { return 0; }\n")
    # PyPI's CMake and Ninja lie beside the interpreter.
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    commands = (
        ["cmake", "-G", "Ninja", "-S", ".", "-B", "build", f"-Daoti_plugins_DIR={cmake_dir()}"],
        ["cmake", "--build", "build"],
    )
    for command in commands:
        done = subprocess.run(
            command,
            cwd=folder,
            env=os.environ | {"PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            break
    return done


@pytest.mark.parametrize("name", ["aoti_torch_cpu_cube", "aoti_torch_cpu_geqrf"])
def test_a_kernel_that_is_exported(name: str, tmp_path: Path) -> None:
    """C shims of PyTorch's ops have another name for the linker, and count as well."""
    done = build(tmp_path, before='extern "C" AOTIP_EXPORT', name=name)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("before", "name", "found"),
    [
        ('extern "C"', "aoti_torch_cpu_cube", "it has aoti_torch_cpu_cube, which programs cannot"),
        ("AOTIP_EXPORT", "aoti_torch_cpu_cube", "it has _Z19aoti_torch_cpu_cube"),
        ('extern "C" AOTIP_EXPORT', "cube", "its sources define no function aoti_torch_..."),
    ],
    ids=["hidden", "of C++", "of another name"],
)
def test_a_library_without_a_kernel(before: str, name: str, found: str, tmp_path: Path) -> None:
    done = build(tmp_path, before=before, name=name)
    assert done.returncode != 0
    text = " ".join((done.stdout + done.stderr).split())
    assert f"aoti_plugins_add_kernels(acme): the library exports no kernel; {found}" in text
    assert 'extern "C" AOTIP_EXPORT' in text
