"""``examples/cpp_runner`` is configured against the installed package, built, and run."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support import lower
from torch import nn

from aoti_plugins import CudaPartitioner

Lowered = Callable[[str], Path]


def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = list(map(str, arguments))
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )


def sums(text: str) -> list[float]:
    return [float(found) for found in re.findall(r"sum (\S+)", text)]


def test_ones(
    cpp_runner: Path, lowered_programs: Lowered, example_models: dict[str, Callable[[], Any]]
) -> None:
    model, inputs = example_models["cnn"]()
    found = run(cpp_runner, lowered_programs("cnn"))
    assert found.returncode == 0, found.stderr
    assert "output 0: shape [1, 10], sum " in found.stdout
    expected = model(*map(torch.ones_like, inputs)).sum().item()
    assert sums(found.stdout) == [pytest.approx(expected, rel=1e-4, abs=1e-4)]


def test_raw_input(
    cpp_runner: Path,
    lowered_programs: Lowered,
    example_models: dict[str, Callable[[], Any]],
    tmp_path: Path,
) -> None:
    model, (x,) = example_models["mlp"]()
    x.numpy().tofile(tmp_path / "x.bin")
    found = run(cpp_runner, lowered_programs("mlp"), tmp_path / "x.bin")
    assert found.returncode == 0, found.stderr
    assert sums(found.stdout) == [pytest.approx(model(x).sum().item(), rel=1e-4, abs=1e-4)]


def test_wrong_size(cpp_runner: Path, lowered_programs: Lowered, tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(bytes(7))
    found = run(cpp_runner, lowered_programs("mlp"), tmp_path / "x.bin")
    assert found.returncode == 1
    assert "x.bin: found 7 bytes, expected 1024" in found.stderr


def test_no_libtorch(cpp_runner: Path) -> None:
    libraries = run("ldd", cpp_runner).stdout
    assert "libexecutorch_backend_aoti.so" in libraries
    assert "libexecutorch_backend_aoti_cuda.so" in libraries
    assert "libcuda.so" not in libraries
    assert "libtorch" not in libraries
    assert "libc10" not in libraries
    assert "libpython" not in libraries


def test_a_program_for_a_gpu_without_a_driver(cpp_runner: Path, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(8, 4), nn.ReLU()).eval()
    program = lower(model, (torch.randn(2, 8),), partitioner=CudaPartitioner(target="h100"))
    (tmp_path / "model.pte").write_bytes(program.buffer)
    missing = str(tmp_path / "no_driver.so")
    found = run(cpp_runner, tmp_path / "model.pte", AOTI_PLUGINS_CUDA_DRIVER=missing)
    assert found.returncode == 1
    assert "AotiCudaBackend" in found.stderr
    assert "no_driver.so" in found.stderr


def test_outputs_need_events(cpp_runner: Path, lowered_programs: Lowered, tmp_path: Path) -> None:
    """The file of outputs says nothing without that of events, which has their names."""
    found = run(cpp_runner, "--outputs", tmp_path / "outputs", lowered_programs("mlp"))
    assert found.returncode == 2
    assert "usage" in found.stderr
    assert not list(tmp_path.iterdir())


def test_events_that_cannot_be_written(
    cpp_runner: Path, lowered_programs: Lowered, tmp_path: Path
) -> None:
    found = run(cpp_runner, "--etdump", tmp_path / "missing" / "dump", lowered_programs("mlp"))
    assert found.returncode == 1
    assert "cannot write" in found.stderr
