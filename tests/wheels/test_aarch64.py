"""Libraries for aarch64 that are built here, at work on a machine under qemu."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support import ROOT
from wheels_support import NATIVE_TESTS, OLDEST_CPU, Aarch64


def test_no_library_needs_a_newer_system(aarch64: Aarch64) -> None:
    libraries = sorted((aarch64.package / "lib").glob("*.so"))
    assert len(libraries) == 3
    tool = ROOT / "tools" / "glibc_versions.py"
    command = [sys.executable, str(tool), "--newest", "2.28", *map(str, libraries)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", NATIVE_TESTS)
def test_native_tests(aarch64: Aarch64, name: str) -> None:
    done = aarch64.run(aarch64.build / "tests" / name, "--report_level=short")
    assert done.returncode == 0, done.stdout + done.stderr


def test_products_on_the_oldest_cpu(aarch64: Aarch64) -> None:
    done = aarch64.run(aarch64.build / "tests" / "matmul_test", cpu=OLDEST_CPU)
    assert done.returncode == 0, done.stdout + done.stderr


def test_cpp_runner(aarch64: Aarch64, stand_in_program: Path) -> None:
    runner = aarch64.build.with_name("cpp_runner") / "cpp_runner"
    done = aarch64.run(runner, stand_in_program, cpu=OLDEST_CPU)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "output 0: shape [2, 3], sum 12.000000\n"


def test_python(aarch64: Aarch64, stand_in_program: Path) -> None:
    script = """
import json, platform, sys
import numpy
from aoti_plugins.runtime import Program, backends
with Program(sys.argv[1]) as program:
    calls = [program(numpy.ones((2, 3), numpy.float32))[0].tolist() for _ in range(2)]
print(json.dumps([platform.machine(), "torch" in sys.modules, list(backends()), calls]))
"""
    done = aarch64.python(script, stand_in_program)
    assert done.returncode == 0, done.stderr
    machine, has_torch, backends, calls = json.loads(done.stdout)
    assert (machine, has_torch) == ("aarch64", False)
    assert "AotiCpuBackend" in backends
    row = np.array([1, 2, 3])
    assert calls == [[(row + at).tolist()] * 2 for at in range(2)]


def test_a_program_for_another_machine_is_refused(
    aarch64: Aarch64, lowered_programs: Callable[[str], Path]
) -> None:
    script = """
import sys
from aoti_plugins.runtime import Program
Program(sys.argv[1]).method("forward")
"""
    done = aarch64.python(script, lowered_programs("mlp"))
    assert done.returncode == 1
    assert "no code for this machine. The program was made for x86_64" in done.stderr
    assert "this machine is aarch64" in done.stderr
