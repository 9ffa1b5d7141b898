"""The wheel for Macs, made here: what is in it, and how Python finds libraries on macOS."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from macos_support import BACKEND, NATIVE, PLATFORM, RUNNER
from packaging.tags import Tag
from packaging.utils import parse_wheel_filename
from wheels_support import tool

# Python as on a Mac, and the package from a folder, in whatever way this one is installed.
ON_A_MAC = """
    import ctypes, json, subprocess, sys
    import numpy
    sys.platform = "darwin"
    sys.meta_path[:] = [one for one in sys.meta_path if "ScikitBuild" not in type(one).__name__]
    sys.path.insert(0, sys.argv[1])
"""


@pytest.fixture(scope="module")
def wheel(macos_libraries: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    components = [tool("wheel_components").zig_runtime(), *tool("wheel_components").libcxx()]
    files = tool("build_wheels").macos_contents(macos_libraries)
    folder = tmp_path_factory.mktemp("wheel")
    return tool("pack_wheel").pack(files, folder, PLATFORM, components)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pip puts it for a Mac; pip compares the files with the wheel's record."""
    folder = tmp_path_factory.mktemp("site-packages")
    options = ["--no-deps", "--no-index", "--only-binary=:all:", "--no-compile"]
    options += ["--python-version=3.12", "--platform", PLATFORM, "--target", str(folder)]
    command = [sys.executable, "-m", "pip", "install", *options, str(wheel)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_tags(wheel: Path) -> None:
    name, _, _, tags = parse_wheel_filename(wheel.name)
    assert (name, tags) == ("aoti-plugins", {Tag("py3", "none", PLATFORM)})


def test_contents(installed: Path, macos_libraries: Path) -> None:
    package = installed / "aoti_plugins"
    for name in (BACKEND, RUNNER):
        assert (package / "lib" / name).read_bytes() == (macos_libraries / name).read_bytes()
    assert [path.name for path in installed.rglob("*.so")] == []
    headers = {path.name for path in (NATIVE / "include" / "aoti_plugins").iterdir()}
    assert {path.name for path in (package / "include" / "aoti_plugins").iterdir()} == headers
    for sources, target in (
        (NATIVE.parent / "aoti_plugins", package),
        (NATIVE.parent / "examples" / "plugins", package / "examples"),
    ):
        for path in sources.rglob("*.py"):
            copied = target / path.relative_to(sources)
            assert copied.read_bytes() == path.read_bytes()


def test_metadata(installed: Path) -> None:
    (information,) = installed.glob("aoti_plugins-*.dist-info")
    metadata = (information / "METADATA").read_text()
    assert "Requires-Dist: executorch==1.5.*" in metadata
    assert "aoti-plugins = aoti_plugins.cli:main" in (information / "entry_points.txt").read_text()
    assert "License-Expression: BSD-3-Clause AND Apache-2.0 WITH LLVM-exception AND MIT" in metadata
    assert "LLVM" in (information / "licenses" / "third_party" / "libcxx.txt").read_text()
    assert "Root-Is-Purelib: false" in (information / "WHEEL").read_text()


def test_it_finds_its_own_libraries(installed: Path, run_python: Callable[..., str]) -> None:
    script = f"""{ON_A_MAC}
    from aoti_plugins.native_files import RUNNER, include_dir, library
    from aoti_plugins.plugin_system.devices import delegates
    names = [RUNNER, *(name for device in delegates().values() for name in device.libraries)]
    print(json.dumps([list(delegates()), str(include_dir()), *(str(library(n)) for n in names)]))
    """
    found = json.loads(run_python(script, installed, AOTI_PLUGINS_LIBRARY_DIR=""))
    package = installed / "aoti_plugins"
    libraries = [str(package / "lib" / name) for name in (RUNNER, BACKEND)]
    assert found == [["mps"], str(package / "include"), *libraries]


def test_it_knows_the_shims_of_its_library(installed: Path, run_python: Callable[..., str]) -> None:
    script = f"""
    import torch
    {ON_A_MAC}
    from aoti_plugins.lowering.runtime_shims import available
    from aoti_plugins.mps.device import MPS
    found = available(MPS, {{}}).builtin
    print("aoti_torch_mps_mm_out" in found, "aoti_torch_cpu_mm_out" in found)
    """
    printed = run_python(script, installed, AOTI_PLUGINS_LIBRARY_DIR="")
    # PyTorch with CUDA says beside it that there is no GPU.
    assert "True False" in printed.splitlines()


@pytest.fixture
def renamed_libraries(tmp_path: Path) -> dict[str, Path]:
    """Our libraries and executorch's of this machine, under the names that they have on macOS."""
    from aoti_plugins import native_files
    from aoti_plugins.plugin_system.devices import delegates
    from aoti_plugins.runtime import executorch_library_dir

    ours, theirs = tmp_path / "ours", tmp_path / "executorch" / "lib"
    for folder in (ours, theirs):
        folder.mkdir(parents=True)
    for device in delegates().values():
        for name in filter(native_files.has_library, device.libraries):
            (ours / name).unlink(missing_ok=True)
            (ours / name).symlink_to(native_files.library(name))
    (ours / BACKEND).symlink_to(native_files.library(delegates()["mps"].libraries[-1]))
    (ours / RUNNER).symlink_to(native_files.library(native_files.RUNNER))
    for path in executorch_library_dir().glob("*.so"):
        (theirs / path.with_suffix(".dylib").name).symlink_to(path)
    return {"ours": ours, "executorch": theirs.parent}


@pytest.mark.usefixtures("metal")
def test_a_program_runs_with_the_names_of_macos(
    renamed_libraries: dict[str, Path],
    mps_programs: Callable[..., Path],
    run_python: Callable[..., str],
) -> None:
    script = f"""{ON_A_MAC}
    import importlib.util
    class Executorch:
        submodule_search_locations = [sys.argv[2]]
    find_spec = importlib.util.find_spec
    importlib.util.find_spec = lambda name: Executorch if name == "executorch" else find_spec(name)
    from aoti_plugins.runtime import Program, _libraries, register
    register("mps")
    with Program(sys.argv[3]) as program:
        (out,) = program(numpy.zeros((4, 64), dtype=numpy.float32))
    print(out.shape, sorted({{path.suffix for path in _libraries._loaded}}))
    try:
        register("cpu")
    except Exception as error:
        print(error)
    """
    root, executorch = NATIVE.parent, renamed_libraries["executorch"]
    printed = run_python(
        script,
        *(root, executorch, mps_programs("mlp", "host")),
        AOTI_PLUGINS_LIBRARY_DIR=str(renamed_libraries["ours"]),
    )
    shape, _, reason = printed.partition("\n")
    assert shape == "(4, 64) ['.dylib']"
    assert "no delegate for device 'cpu' on this system; there is one for mps" in reason
