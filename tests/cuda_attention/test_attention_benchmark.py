"""The benchmark runs where there is a GPU, and says what it needs where there is none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).parent.parent.parent / "benchmarks" / "cuda_attention.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so() -> None:
    done = run()
    assert done.returncode != 0
    assert done.stderr.strip() == "this benchmark needs an NVIDIA GPU and a CUDA build of torch"


@pytest.mark.gpu
def test_on_a_gpu(tmp_path: Path) -> None:
    output = tmp_path / "result.json"
    done = run("--smoke", "--rounds=1", "--round-us=100", f"--output={output}")
    assert done.returncode == 0, done.stderr
    assert json.loads(output.read_text())["results"]
