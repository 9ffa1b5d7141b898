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
def errors_of_few(shared_dir: Path) -> dict[str, float]:
    """Largest error by case, computed once per run: Triton interprets all or nothing."""
    path = shared_dir / "attention_errors.json"
    with FileLock(f"{path}.lock"):
        return json.loads(path.read_text()) if path.exists() else compute(path, "--few")


def compute(path: Path, *arguments: str) -> dict[str, float]:
    command = [sys.executable, attention_cases.__file__, str(path), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(path.read_text())


def check(errors: dict[str, float]) -> None:
    for name, error in errors.items():
        assert error < attention_cases.TOLERANCE[attention_cases.CASES[name].dtype], name


@pytest.mark.parametrize("name", attention_cases.FEW)
def test_equals_the_math_form(name: str, errors_of_few: dict[str, float]) -> None:
    check({name: errors_of_few[name]})


@pytest.mark.long
def test_all_equal_the_math_form(tmp_path: Path) -> None:
    errors = compute(tmp_path / "errors.json")
    assert errors.keys() == attention_cases.CASES.keys()
    check(errors)


@pytest.mark.gpu
def test_equals_the_math_form_on_a_gpu(tmp_path: Path) -> None:
    check(compute(tmp_path / "errors.json", "--on-gpu"))
