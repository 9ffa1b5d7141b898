"""Programs of ExecuTorch's own CUDA backend without a GPU: who runs them, and why they do not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT

from aoti_plugins.errors import RuntimeLoadError
from aoti_plugins.runtime import backends, register

pytestmark = pytest.mark.skipif(
    "AotiCudaBackend" not in backends(),
    reason="the CUDA delegate was not built: CUDA's headers are missing",
)

START = """
import sys
from aoti_plugins.errors import ProgramError
from aoti_plugins.runtime import Program, backends, register
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program whose blob is never reached."""
    folder = tmp_path_factory.mktemp("upstream")
    (folder / "blob").write_bytes(b"no blob")
    script = ROOT / "native" / "tests" / "make_upstream_program.py"
    command = [sys.executable, str(script), str(folder / "blob"), str(folder / "model.pte")]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "model.pte"


def run(code: str, *arguments: str) -> str:
    """What the code prints in a process without a driver."""
    done = subprocess.run(
        [sys.executable, "-c", START + code, *arguments],
        env={**os.environ, "AOTI_PLUGINS_CUDA_DRIVER": "/nonexistent/libcuda.so.1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("method", ["listed", "keyed", "named"])
def test_without_a_driver(program: Path, method: str) -> None:
    printed = run(
        """
with Program(sys.argv[1]) as program:
    assert "CudaBackend" not in backends()
    try:
        program.method(sys.argv[2])
    except ProgramError as error:
        print(error)
    assert "CudaBackend" in backends()
""",
        str(program),
        method,
    )
    assert f"cannot load method '{method}' of the program" in printed
    assert "CudaBackend is not available: " in printed
    assert "/nonexistent/libcuda.so.1" in printed


def test_registered_only_on_demand() -> None:
    run(
        """
register("cuda")
assert "CudaBackend" not in backends()
register("cuda", upstream=True)
register("cuda", upstream=True)
assert backends().count("CudaBackend") == 1
"""
    )


def test_only_cuda_has_an_upstream_backend() -> None:
    with pytest.raises(RuntimeLoadError, match=r"no backend .* for device 'cpu'.* only for 'cuda'"):
        register("cpu", upstream=True)
