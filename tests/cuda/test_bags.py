"""The kernels of bags compute what PyTorch's kernel for the CPU does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import bag_cases
import pytest

pytest.importorskip("triton")


def check(path: Path, *arguments: str) -> None:
    command = [sys.executable, bag_cases.__file__, str(path), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    errors = json.loads(path.read_text())
    assert errors.keys() == bag_cases.CASES.keys()
    for name, error in errors.items():
        assert error < bag_cases.DTYPES[bag_cases.CASES[name][0]][1], name


def test_equals_pytorch(tmp_path: Path) -> None:
    check(tmp_path / "errors.json")


@pytest.mark.gpu
def test_equals_pytorch_on_a_gpu(tmp_path: Path) -> None:
    check(tmp_path / "errors.json", "cuda")
