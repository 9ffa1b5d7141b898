"""The wheel for this machine, and an aarch64 machine under qemu with our libraries on it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import wheels_support as support
from filelock import FileLock
from support import ROOT


@pytest.fixture(scope="session", autouse=True)
def _build_programs() -> None:
    """CMake and Ninja of this environment are found first."""
    folder = str(Path(sys.executable).parent)
    os.environ["PATH"] = os.pathsep.join((folder, os.environ["PATH"]))
    for name in ("cmake", "ninja"):
        assert shutil.which(name), f"the tests need {name}: pip install {name}"


@pytest.fixture(scope="session")
def wheel(shared_dir: Path) -> Path:
    """Built once per run, as `make wheels` does but for CUDA."""
    if path := os.environ.get("AOTI_PLUGINS_WHEEL"):
        return Path(path)
    support.need_zig_and_debian()
    output = shared_dir / "wheel"
    with FileLock(f"{output}.lock"):
        if not output.exists():
            work = support.parts(shared_dir)
            command = [sys.executable, str(ROOT / "native" / "tools" / "build_wheels.py")]
            command += [str(output), support.PLATFORM, "--without-cuda", "--work", str(work)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
    (path,) = output.glob("*.whl")
    return path


@pytest.fixture(scope="session")
def aarch64(shared_dir: Path) -> support.Aarch64:
    """An aarch64 machine with our libraries, built once per run."""
    qemu = support.need_qemu()
    support.need_zig_and_debian()
    parts, work = support.parts(shared_dir), shared_dir / "aarch64"
    machine = support.Aarch64(qemu, parts / "root-aarch64", work / "site", work / "build")
    with FileLock(f"{work}.lock"):
        if not (work / "built").exists():
            work.mkdir(exist_ok=True)
            _build(machine, parts)
            (work / "built").touch()
    return machine


def _build(machine: support.Aarch64, parts: Path) -> None:
    tools = support.tool("build_linux")
    packages = (*tools.PACKAGES, "libstdc++6", "python3.11")
    support.debian_root("arm64", machine.root, packages)
    needed = ["executorch==1.5.*", "numpy", "pluggy", "cmeel-boost"]
    support.unpack(support.download("aarch64", parts / "aarch64", needed), machine.site)
    boost = machine.site / "cmeel.prefix"
    settings = {
        "CMAKE_INSTALL_PREFIX": machine.package,
        "CMAKE_CROSSCOMPILING_EMULATOR": f"{machine.qemu};-L;{machine.root}",
        "AOTIP_BUILD_TESTS": "ON",
        "AOTIP_CUDA": "OFF",
        "AOTIP_BOOST_INCLUDE_DIR": boost / "include",
        "AOTIP_BOOST_TEST_LIBRARY": boost / "lib" / "libboost_unit_test_framework.so",
    }
    executorch = machine.site / "executorch"
    tools.configure_libraries(executorch, machine.build, "aarch64", machine.root, settings)
    targets = ("backend_aoti_mps", "runner", *support.NATIVE_TESTS)
    tools.run(["cmake", "--build", str(machine.build), "--target", *targets])
    tools.run(["cmake", "--install", str(machine.build)])
    native = shutil.ignore_patterns("lib", "include", "examples")  # this machine's
    shutil.copytree(ROOT / "aoti_plugins", machine.package, ignore=native, dirs_exist_ok=True)
    _build_runner(machine)


def _build_runner(machine: support.Aarch64) -> None:
    """examples/cpp_runner, as users build it, with the same compiler."""
    tools = support.tool("build_linux")
    folder = machine.build.with_name("cpp_runner")
    settings = {
        **tools.toolchain("aarch64", machine.root),
        "CMAKE_BUILD_RPATH": f"{machine.package / 'lib'};{machine.site / 'executorch' / 'lib'}",
        "aoti_plugins_DIR": machine.package / "lib" / "cmake" / "aoti_plugins",
        "executorch_DIR": machine.site / "executorch" / "lib" / "cmake" / "executorch",
    }
    tools.configure(ROOT / "examples" / "cpp_runner", folder, settings)
    tools.run(["cmake", "--build", str(folder)])


@pytest.fixture(scope="session")
def stand_in_program(aarch64: support.Aarch64) -> Path:
    """A program for aarch64 whose code is tests/fake_model: x * [1, 2, 3] and the number of calls.

    Lowering for aarch64 has tests of its own; this one is made without.
    """
    path = aarch64.build / "tests" / "programs" / "fake_program.pte"
    assert path.exists(), "runner_test makes it"
    return path
