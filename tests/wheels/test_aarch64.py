"""Libraries for aarch64 that are built here, at work on a machine under qemu."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from aarch64_support import NATIVE_TESTS, OLDEST_CPU, SVE256_CPU, Aarch64, cached
from support import ROOT, lower
from torch import nn
from torch.utils import _pytree as pytree

pytestmark = pytest.mark.timeout(1800)  # the first test builds the machine, nvcc's part included


def test_no_library_needs_a_newer_system(aarch64: Aarch64) -> None:
    libraries = sorted((aarch64.package / "lib").glob("*.so"))
    has_cuda = cached(aarch64, "AOTIP_CUDA_INCLUDE_DIR") is not None
    assert len(libraries) == 3 + has_cuda
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


@pytest.mark.parametrize(
    ("target", "cpu"),
    [("aarch64-v8", OLDEST_CPU), ("aarch64-sve256", SVE256_CPU)],
    ids=["oldest", "sve256"],
)
@pytest.mark.parametrize("name", ["cnn", "transformer", "lstm"])
def test_a_lowered_program(
    aarch64: Aarch64,
    example_models: dict[str, Callable[[], Any]],
    name: str,
    target: str,
    cpu: str,
) -> None:
    model, inputs = example_models[name]()
    program = bytes(lower(model, inputs, target=target).buffer)
    found = aarch64.call(program, inputs, cpu=cpu)
    with torch.no_grad():
        expected = pytree.tree_leaves(model(*inputs))
    torch.testing.assert_close(list(found), expected, rtol=1e-4, atol=1e-4)


class Halves(nn.Module):
    """Numbers of bfloat16 inside, which numpy does not have."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.LayerNorm(96)).bfloat16()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.layers(x.bfloat16()), -1).float()


def test_a_program_for_cpus_with_bfloat16(aarch64: Aarch64) -> None:
    torch.manual_seed(0)
    model, x = Halves().eval(), torch.randn(5, 64)
    program = bytes(lower(model, (x,), target="aarch64-v8.6").buffer)
    (found,) = aarch64.call(program, (x,))
    with torch.no_grad():
        torch.testing.assert_close(found, model(x), rtol=0.02, atol=1e-3)
    with pytest.raises(RuntimeError, match=r"for aarch64-v8\.6 \(aarch64 bf16 \[missing here\]\)"):
        aarch64.call(program, (x,), cpu=OLDEST_CPU)


class EachFunction(nn.Module):
    """Every function that vector code takes from the runtime, and what is computed without."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        of_one = [torch.acos, torch.asin, torch.atanh, torch.atan, torch.cos, torch.sin, torch.tan]
        of_one += [torch.cosh, torch.sinh, torch.tanh, torch.asinh, torch.exp, torch.exp2]
        of_one += [torch.expm1, torch.erf, torch.erfc, torch.sigmoid, nn.functional.silu]
        positive = y.abs() + 1
        of_positive = [torch.log, torch.log2, torch.log10, torch.log1p, torch.acosh, torch.lgamma]
        return (
            *(op(x) for op in of_one),
            *(op(positive) for op in of_positive),
            torch.atan2(x, y),
            torch.pow(positive, x),
            torch.hypot(x, y),
            torch.fmod(y, positive * 0.3),
            torch.copysign(x, y),
            torch.nextafter(x, y),
            torch.where(x > y, x.round(), y.floor()),
            x.sum(1),
            torch.softmax(y, 1),
            y.amax(0),
            (x * 100).to(torch.int32) // 7,
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_functions_of_vectors_of_256_bits(aarch64: Aarch64, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    # 37 columns: whole vectors of both lengths, and a rest.
    x, y = torch.rand(5, 37, dtype=dtype) * 1.8 - 0.9, torch.randn(5, 37, dtype=dtype)
    program = bytes(lower(EachFunction(), (x, y), target="aarch64-sve256").buffer)
    found = aarch64.call(program, (x, y), cpu=SVE256_CPU)
    torch.testing.assert_close(found, EachFunction()(x, y), rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("cpu", [OLDEST_CPU, "max,sve-default-vector-length=16", "max"])
def test_vectors_of_another_length_are_refused(aarch64: Aarch64, cpu: str) -> None:
    torch.manual_seed(0)
    model, x = Halves().eval(), torch.randn(5, 64)
    program = bytes(lower(model, (x,), target="aarch64-sve256").buffer)
    (found,) = aarch64.call(program, (x,), cpu=SVE256_CPU)
    with torch.no_grad():
        torch.testing.assert_close(found, model(x), rtol=0.02, atol=1e-3)
    with pytest.raises(RuntimeError, match=r"for aarch64-sve256 \(.*sve256 \[missing here\]"):
        aarch64.call(program, (x,), cpu=cpu)


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
