"""Programs for Orin that are lowered here run on an aarch64 machine under qemu, without a GPU.

The driver is the stand-in of the C++ tests, built for that machine: memory, streams, modules and
launches are checked as strictly there. Our own kernels run as host functions, from their sources;
Triton's cannot, so that a test writes down in C what the only one of its program does.
"""

from __future__ import annotations

import dataclasses
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from aarch64_support import Aarch64, build_targets, cached
from filelock import FileLock
from support import lower
from torch import Tensor, nn
from torchao.quantization import IntxWeightOnlyConfig, quantize_
from torchao.quantization.granularity import PerGroup
from wheels_support import tool

from aoti_plugins import CudaPartitioner
from aoti_plugins.cuda.kernel_image import MAGIC
from aoti_plugins.cuda.target import as_target, target_by_name
from aoti_plugins.hooks import hookimpl
from aoti_plugins.plugin_system.manager import get_manager
from aoti_plugins.types import Target

pytestmark = pytest.mark.timeout(1800)  # the first test builds the machine, nvcc's part included

_CHECK = """
import ctypes, os
driver = ctypes.CDLL(os.environ["AOTI_PLUGINS_CUDA_DRIVER"])
driver.fake_cuda_misuse.restype = ctypes.c_char_p
driver.fake_cuda_launches.restype = ctypes.c_size_t
assert driver.fake_cuda_misuse() == b"", driver.fake_cuda_misuse()
found = driver.fake_cuda_launches()
assert found == {launches}, f"{{found}} launches"
"""


@pytest.fixture(scope="session")
def orin(aarch64: Aarch64) -> dict[str, str]:
    """The environment variables under which that machine has a GPU like Orin's."""
    if cached(aarch64, "AOTIP_NVCC") is None:
        pytest.skip("nvcc is not here: the stand-in for CUDA's driver is for kernels it compiles")
    with FileLock(f"{aarch64.build}.lock"):
        build_targets(aarch64, "fake_cuda")
    return {
        "AOTI_PLUGINS_CUDA_DRIVER": str(aarch64.build / "tests" / "fake_cuda" / "libfake_cuda.so"),
        "FAKE_CUDA_CAPABILITY": "87",
        "FAKE_CUDA_GUARDED": "1",  # the host faults where it touches the GPU's memory
    }


class OrinWithPtx:
    """A plugin with Orin once more: PTX lies beside each kernel, in a container with it."""

    @hookimpl
    def aoti_targets(self, device: str) -> tuple[Target, ...]:
        """That target."""
        gpu = dataclasses.replace(target_by_name("orin"), name="orin-ptx", ptx=True)
        return (as_target(gpu),) if device == "cuda" else ()


def lowered(model: nn.Module, inputs: tuple[Any, ...], target: str = "orin") -> bytes:
    """A program for Orin."""
    with get_manager().registered(OrinWithPtx(), "orin-ptx"):
        return bytes(lower(model, inputs, partitioner=CudaPartitioner(target=target)).buffer)


def kernels_of(program: bytes) -> set[str]:
    """The kernels of Triton's in it."""
    names = re.findall(rb"triton_[a-z0-9_]+", program)
    return {name.decode().partition("_param_")[0] for name in names}  # PTX names arguments, too


class Gated(nn.Module):
    """What a layer of a language model does behind its norm; kernels of ours do all of it."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up = (nn.Linear(256, 512, bias=False) for _ in range(2))
        self.down = nn.Linear(512, 256, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(nn.functional.silu(self.gate(x)) * self.up(x))


@pytest.mark.parametrize("dtype", [torch.int4, torch.int8], ids=str)
def test_products_with_small_weights(
    dtype: torch.dtype, aarch64: Aarch64, orin: dict[str, str]
) -> None:
    torch.manual_seed(0)
    model, x = Gated().half().eval(), torch.randn(1, 256).half()
    quantize_(model, IntxWeightOnlyConfig(dtype, PerGroup(32)))
    program = lowered(model, (x,))
    assert kernels_of(program) == set()
    (found,) = aarch64.call(program, (x,), check=_CHECK.format(launches=2), **orin)
    with torch.no_grad():
        torch.testing.assert_close(found, model(x), rtol=0.01, atol=0.01)


class Sorted(nn.Module):
    """Rows in order, by kernels of ours; the places are of 64 bits."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        ordered, places = torch.sort(x, dim=-1, stable=True)
        return ordered, places


def test_a_sort(aarch64: Aarch64, orin: dict[str, str]) -> None:
    torch.manual_seed(0)
    x = torch.randint(-50, 50, (5, 3000)).float()  # of which many are equal
    program = lowered(Sorted(), (x,))
    assert kernels_of(program) == set()
    found = aarch64.call(program, (x,), check=_CHECK.format(launches=1), **orin)
    torch.testing.assert_close(found, Sorted()(x))


class Affine(nn.Module):
    """One kernel of Triton's, with two constants that are too large to be written into it."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(24))
        self.shift = nn.Parameter(torch.randn(24))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale + self.shift


_AFFINE = """
#include <stddef.h>
#include <stdlib.h>
const size_t {name}_nbytes[] = {{8, 8, 8, 8, 4, 0}};
void {name}(void** arguments, unsigned int blocks) {{
  const float* x = *(float**)arguments[0];
  const float* scale = *(float**)arguments[1];
  const float* shift = *(float**)arguments[2];
  float* out = *(float**)arguments[3];
  const int n = *(int*)arguments[4];
  if (n != 37 * 24 || blocks == 0 || blocks > 37) abort();
  for (int i = 0; i < n; ++i) out[i] = x[i] * scale[i % 24] + shift[i % 24];
}}
"""


@pytest.mark.parametrize("target", ["orin", "orin-ptx"])
def test_a_kernel_of_tritons(
    target: str, aarch64: Aarch64, orin: dict[str, str], tmp_path: Path
) -> None:
    """It is loaded out of the blob, found by its name, and gets what the blob's code gives it."""
    torch.manual_seed(0)
    model, x = Affine().eval(), torch.arange(37 * 24.0).reshape(37, 24)
    program = lowered(model, (x,), target)
    assert (MAGIC in program) == (target == "orin-ptx")
    (name,) = kernels_of(program)
    source, library = tmp_path / "kernel.c", tmp_path / "libkernel.so"
    source.write_text(_AFFINE.format(name=name))
    compiler = [str(tool("build_linux").find_zig()), "cc", "-target", "aarch64-linux-gnu.2.28"]
    options = ["-O1", "-shared", "-fPIC", str(source), "-o", str(library)]
    subprocess.run([*compiler, *options], check=True)
    variables = {**orin, "FAKE_CUDA_KERNELS": str(library)}
    (found,) = aarch64.call(program, (x,), check=_CHECK.format(launches=1), **variables)
    with torch.no_grad():
        torch.testing.assert_close(found, model(x))
    with pytest.raises(RuntimeError, match="cuModuleGetFunction failed"):  # it was that function
        aarch64.call(program, (x,), **orin)


def test_another_gpu_is_refused(aarch64: Aarch64, orin: dict[str, str]) -> None:
    x = torch.ones(3, 24)
    variables = {**orin, "FAKE_CUDA_CAPABILITY": "90"}
    with pytest.raises(RuntimeError, match=r"made for orin \(aarch64 sm_87.*cuda:0 Fake GPU"):
        aarch64.call(lowered(Affine(), (x,)), (x,), **variables)
