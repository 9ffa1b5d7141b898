"""Layers with weights of ExecuTorch's own CUDA backend are lowered by ours, too, without a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

FORMS = ("int4", "int5", "int6", "int8")
SCRIPT = Path(__file__).with_name("lower_upstream_forms.py")


def test_calls_the_runtimes_kernels(contents: Callable[[Path], Any], tmp_path: Path) -> None:
    paths = os.pathsep.join((str(SCRIPT.parents[1]), os.environ.get("PYTHONPATH", "")))
    subprocess.run(
        [sys.executable, "-W", "ignore", str(SCRIPT), str(tmp_path), *FORMS],
        env={**os.environ, "PYTHONPATH": paths},
        check=True,
    )
    for form in FORMS:
        (payload,), _, outside = contents(tmp_path / f"{form}.pte")
        assert outside == []
        (target,) = payload.targets
        assert f"aoti_torch_cuda_{form}_plain_mm" in target.symbols
