"""The wheel for this machine, and an aarch64 machine under qemu with our libraries on it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import wheels_support as support
from aarch64_support import Aarch64, built_machine
from filelock import FileLock
from support import ROOT


@pytest.fixture(scope="session", autouse=True)
def _build_programs() -> None:
    """CMake and Ninja of this environment are found first."""
    support.find_build_programs()


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
def aarch64(shared_dir: Path) -> Aarch64:
    """An aarch64 machine with our libraries, built once per run."""
    return built_machine(shared_dir / "aarch64", support.parts(shared_dir), tests=True)


@pytest.fixture(scope="session")
def stand_in_program(aarch64: Aarch64) -> Path:
    """A program for aarch64 whose code is tests/fake_model: x * [1, 2, 3] and the number of calls.

    Lowering for aarch64 has tests of its own; this one is made without.
    """
    path = aarch64.build / "tests" / "programs" / "fake_program.pte"
    assert path.exists(), "runner_test makes it"
    return path
