"""What the reader says of freshly compiled kernels, for several GPUs and none at hand."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from aoti_plugins.cuda.tuning.cubin import KernelResources, kernel_resources, registers_and_spills
from aoti_plugins.errors import LoweringError

triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402


@triton.jit
def scale_rows(x, y, n, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # noqa: N803
    r = tl.arange(0, ROWS)
    c = tl.arange(0, COLUMNS)
    values = tl.load(x + r[:, None] * n + c[None, :])
    total = tl.sum(values, 1)
    tl.store(y + r[:, None] * n + c[None, :], values * total[:, None])


def _compile(capability: int, rows: int, limit: int | None = None) -> bytes:
    signature = {
        "x": "*fp32",
        "y": "*fp32",
        "n": "i32",
        "ROWS": "constexpr",
        "COLUMNS": "constexpr",
    }
    source = ASTSource(scale_rows, signature, {"ROWS": rows, "COLUMNS": 256}, {})
    target = GPUTarget("cuda", capability, 32)
    options = {"num_warps": 4, "maxnreg": limit, "enable_fp_fusion": True}
    return triton.compile(source, target=target, options=options).asm["cubin"]


@pytest.mark.parametrize("capability", [80, 89, 90, 100, 120])
def test_small_and_spilling_kernels(capability: int) -> None:
    small = kernel_resources(_compile(capability, 4), "scale_rows")
    assert 16 <= small.registers <= 64
    assert small.spills == 0
    registers, spills = registers_and_spills(_compile(capability, 32, 24), "scale_rows")
    assert registers <= 24
    assert spills > 10


@pytest.mark.parametrize("capability", [80, 90])
def test_cuobjdump_agrees(capability: int, tmp_path: Path) -> None:
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    if not tool.exists():
        pytest.skip(f"this triton has no {tool.name}")
    for rows, limit in ((4, None), (32, 24)):
        binary = _compile(capability, rows, limit)
        (tmp_path / "kernel.cubin").write_bytes(binary)
        command = [str(tool), "-res-usage", str(tmp_path / "kernel.cubin")]
        shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        numbers = {key: int(value) for key, value in re.findall(r"(\w+):(\d+)", shown)}
        found = kernel_resources(binary, "scale_rows")
        expected = KernelResources(numbers["REG"], numbers["STACK"], numbers["SHARED"])
        assert found == expected


def test_unknown_kernel_and_no_cubin() -> None:
    binary = _compile(80, 4)
    with pytest.raises(LoweringError, match=r"no kernel 'other'; it has: scale_rows"):
        kernel_resources(binary, "other")
    with pytest.raises(LoweringError, match=r"kernel 'any' is no cubin"):
        kernel_resources(b"not ELF", "any")


def test_cut_off_files_are_refused() -> None:
    binary = _compile(80, 4)
    for length in (64, 100, 300, 500):
        with pytest.raises(LoweringError):
            kernel_resources(binary[:length], "scale_rows")
