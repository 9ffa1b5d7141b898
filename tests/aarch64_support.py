"""An aarch64 machine under qemu, with our libraries on it and without torch."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
import torch
from filelock import FileLock
from support import ROOT
from wheels_support import debian_root, download, need_zig_and_debian, tool, unpack

QEMU = ("qemu-aarch64-static", "qemu-aarch64")
# C++ tests of tensors, shims, loading, running, and of products with NEON; others take minutes.
NATIVE_TESTS = ("tensor_test", "shim_contract_test", "matmul_test", "delegate_test", "runner_test")
# The oldest CPU that programs for aarch64 are for: none of what is asked for at run time.
OLDEST_CPU = "cortex-a57"
# One whose vectors of SVE have 256 bits; without more, they have 512.
SVE256_CPU = "max,sve-default-vector-length=32"
# Of the environment, with a machine's ``as_text``.
MACHINE_VARIABLE = "AOTI_PLUGINS_TEST_AARCH64"

_CALL = """
import pickle, sys
from aoti_plugins.runtime import Program
program, inputs, outputs = sys.argv[1:]
with open(inputs, "rb") as file:
    arguments = pickle.load(file)
with Program(program) as loaded:
    results = loaded(*arguments)
assert "torch" not in sys.modules
with open(outputs, "wb") as file:
    pickle.dump(results, file)
"""  # a check follows


@dataclass(frozen=True)
class Aarch64:
    """An aarch64 machine under qemu, with our libraries on it.

    Args:
        qemu: the emulator.
        root: its system.
        site: its site-packages; executorch is there, ours as well.
        build: the build folder of our libraries and their tests.
    """

    qemu: str
    root: Path
    site: Path
    build: Path

    def as_text(self) -> str:
        """For ``MACHINE_VARIABLE``."""
        return json.dumps([self.qemu, *map(str, (self.root, self.site, self.build))])

    @property
    def package(self) -> Path:
        """Our package there."""
        return self.site / "aoti_plugins"

    def run(
        self, *command: str | Path, cpu: str = "max", **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of that machine."""
        options = [self.qemu, "-cpu", cpu, "-L", str(self.root)]
        return subprocess.run(
            [*options, *map(str, command)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **variables},
            cwd=self.site,  # not this checkout, whose libraries are this machine's
            timeout=600,
        )

    def python(
        self, script: str, *arguments: str | Path, cpu: str = "max", **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a script by that machine's Python, without torch."""
        python = self.root / "usr" / "bin" / "python3.11"
        variables["PYTHONPATH"] = str(self.site)
        return self.run(python, "-c", script, *arguments, cpu=cpu, **variables)

    def call(
        self,
        program: bytes,
        inputs: Sequence[Any],
        *,
        check: str = "",
        cpu: str = "max",
        **variables: str,
    ) -> tuple[Any, ...]:
        """Call a program's method ``forward`` on that machine, in a process of its own.

        Args:
            program: as ``to_executorch`` gives it.
            inputs: tensors of dtypes that numpy has, and numbers.
            check: a script that the process runs afterwards.
            cpu: that qemu emulates.
            variables: of the environment.

        Returns:
            What the method gave, as tensors and numbers.

        Raises:
            RuntimeError: the process failed; with what it said last.
        """
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder) / name for name in ("program.pte", "inputs", "outputs")]
            files[0].write_bytes(program)
            files[1].write_bytes(pickle.dumps([_without_torch(one) for one in inputs]))
            done = self.python(_CALL + check, *files, cpu=cpu, **variables)
            if done.returncode != 0:
                last = done.stderr.strip().rpartition("\n")[2]
                raise RuntimeError(f"{last}\nexit status {done.returncode}\n{done.stderr}")
            return tuple(map(_with_torch, pickle.loads(files[2].read_bytes())))


def machine_of_environment() -> Aarch64:
    """The machine that ``MACHINE_VARIABLE`` names."""
    qemu, *folders = json.loads(os.environ[MACHINE_VARIABLE])
    return Aarch64(qemu, *map(Path, folders))


def _without_torch(value: Any) -> Any:
    return value.detach().numpy() if isinstance(value, torch.Tensor) else value


def _with_torch(value: Any) -> Any:
    return value if isinstance(value, int | float | str | None) else torch.from_numpy(value)


def need_qemu() -> str:
    """The emulator, or a skip."""
    for name in QEMU:
        if found := shutil.which(name):
            return found
    pytest.skip(f"none of {', '.join(QEMU)} is here: apt-get install qemu-user-static")


def built_machine(work: Path, parts: Path, *, tests: bool) -> Aarch64:
    """The machine in a folder, built where it is not there; processes may share it.

    Args:
        work: for what is built.
        parts: where downloads stay.
        tests: build C++ tests, an example and the delegate for CUDA too, where CUDA's headers are.

    Returns:
        It, or a skip where the emulator, zig or Debian's packages are missing.
    """
    qemu = need_qemu()
    need_zig_and_debian()
    machine = Aarch64(qemu, parts / "root-aarch64", work / "site", work / "build")
    with FileLock(f"{work}.lock"):
        if not (work / "built").exists():
            work.mkdir(parents=True, exist_ok=True)
            _build(machine, parts, tests)
            (work / "built").touch()
    return machine


def _build(machine: Aarch64, parts: Path, tests: bool) -> None:
    tools = tool("build_linux")
    packages = (*tools.PACKAGES, "libstdc++6", "python3.11")
    debian_root("arm64", machine.root, packages)
    needed = ["executorch==1.5.*", "numpy", "pluggy", "cmeel-boost"]
    unpack(download("aarch64", parts / "aarch64", needed), machine.site)
    settings = {"CMAKE_INSTALL_PREFIX": machine.package, "AOTIP_CUDA": "AUTO" if tests else "OFF"}
    if tests:
        settings |= _settings_of_tests(machine)
    executorch = machine.site / "executorch"
    tools.configure_libraries(executorch, machine.build, "aarch64", machine.root, settings)
    targets = ["backend_aoti_mps", "runner"]
    if cached(machine, "AOTIP_CUDA_INCLUDE_DIR"):
        targets.append("backend_aoti_cuda")
    build_targets(machine, *targets, *(NATIVE_TESTS if tests else ()))
    tools.run(["cmake", "--install", str(machine.build)])
    native = shutil.ignore_patterns("lib", "include", "examples")  # this machine's
    shutil.copytree(ROOT / "aoti_plugins", machine.package, ignore=native, dirs_exist_ok=True)
    _write_metadata(machine)
    if tests:
        _build_runner(machine)


def _write_metadata(machine: Aarch64) -> None:
    """By which our plugins are found, those of devices too: as it is installed here."""
    ours = distribution("aoti-plugins")
    folder = machine.site / f"aoti_plugins-{ours.version}.dist-info"
    folder.mkdir(exist_ok=True)
    for name in ("METADATA", "entry_points.txt"):
        (folder / name).write_text(ours.read_text(name) or "")


def _settings_of_tests(machine: Aarch64) -> dict[str, str | Path]:
    boost = machine.site / "cmeel.prefix"
    return {
        "CMAKE_CROSSCOMPILING_EMULATOR": f"{machine.qemu};-L;{machine.root}",
        "AOTIP_BUILD_TESTS": "ON",
        "AOTIP_BOOST_INCLUDE_DIR": boost / "include",
        "AOTIP_BOOST_TEST_LIBRARY": boost / "lib" / "libboost_unit_test_framework.so",
    }


def cached(machine: Aarch64, name: str) -> str | None:
    """A variable that CMake found for the machine's build; None where it did not."""
    found: str | None = tool("build_linux").cached(machine.build / "CMakeCache.txt", name)
    return found


def build_targets(machine: Aarch64, *targets: str) -> None:
    """Build targets of the machine's build folder."""
    tool("build_linux").run(["cmake", "--build", str(machine.build), "--target", *targets])


def _build_runner(machine: Aarch64) -> None:
    """examples/cpp_runner, as users build it, with the same compiler."""
    tools = tool("build_linux")
    folder = machine.build.with_name("cpp_runner")
    settings = {
        **tools.toolchain("aarch64", machine.root),
        "CMAKE_BUILD_RPATH": f"{machine.package / 'lib'};{machine.site / 'executorch' / 'lib'}",
        "aoti_plugins_DIR": machine.package / "lib" / "cmake" / "aoti_plugins",
        "executorch_DIR": machine.site / "executorch" / "lib" / "cmake" / "executorch",
    }
    tools.configure(ROOT / "examples" / "cpp_runner", folder, settings)
    tools.run(["cmake", "--build", str(folder)])
