"""The kernels compute what the math form computes, in Triton's interpreter."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import attention_cases
import pytest
from filelock import FileLock

pytest.importorskip("triton")


@pytest.fixture(scope="session")
def errors(shared_dir: Path) -> dict[str, float]:
    """Largest error by case, computed once per run: Triton interprets all or nothing."""
    path = shared_dir / "attention_errors.json"
    with FileLock(f"{path}.lock"):
        return compute(path) if not path.exists() else json.loads(path.read_text())


def compute(path: Path, *arguments: str) -> dict[str, float]:
    command = [sys.executable, attention_cases.__file__, str(path), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(path.read_text())


@pytest.mark.parametrize("name", attention_cases.CASES)
def test_equals_the_math_form(name: str, errors: dict[str, float]) -> None:
    case = attention_cases.CASES[name]
    assert errors[name] < attention_cases.TOLERANCE[case.dtype]


@pytest.mark.gpu
def test_equals_the_math_form_on_a_gpu(tmp_path: Path) -> None:
    for name, error in compute(tmp_path / "errors.json", "cuda").items():
        assert error < attention_cases.TOLERANCE[attention_cases.CASES[name].dtype], name
