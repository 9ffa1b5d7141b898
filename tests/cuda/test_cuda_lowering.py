"""Lowering for CUDA without a GPU: no call reaches one, results repeat, errors help."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from executorch.exir._serialize._program import deserialize_pte_binary
from support import cache_without_blobs, lower

from aoti_plugins import CudaPartitioner, LoweringError
from aoti_plugins.compile_specs import LoweringOptions
from aoti_plugins.cuda import toolkit
from aoti_plugins.cuda.device import CUDA
from aoti_plugins.cuda.kernel_image import MAGIC
from aoti_plugins.cuda.lowering import features
from aoti_plugins.cuda.target import TARGETS, default_target
from aoti_plugins.lowering.inductor.capture import GeneratedCode, GpuKernel
from aoti_plugins.payload import PayloadFlag, decode

NO_OPTIONS = LoweringOptions()
BY_NAME = {target.name: target for target in TARGETS}

# Lowers a model, and fails where anything would touch a GPU or its driver.
_WATCHED = """
import hashlib, sys
import torch
from aoti_plugins import CudaPartitioner
sys.path.insert(0, sys.argv[1])
from support import load_example, lower

def watch(event, arguments):
    text = str(arguments[0]) if arguments else ""
    touches = "libcuda.so" in text or text.startswith("/dev/nvidia")
    if event in ("ctypes.dlopen", "open") and touches:
        raise RuntimeError(f"{event} of {text}")

sys.addaudithook(watch)
model, inputs = load_example("models").MODELS["mlp"]()
program = lower(model, inputs, partitioner=CudaPartitioner(target="h100"))
assert not torch.cuda.is_initialized()
assert not torch.cuda.is_available() or torch.version.cuda
maps = open("/proc/self/maps").read()
assert "libcuda.so" not in maps, "the driver was loaded"
print(hashlib.sha256(program.buffer).hexdigest())
"""


@pytest.fixture(scope="module")
def digests(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Digests of one model's program, from two processes with caches of their own."""
    tests = Path(__file__).parents[1]
    found = []
    for seed in ("1", "2"):
        folder = tmp_path_factory.mktemp(f"caches{seed}")
        environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(folder),
            "AOTI_PLUGINS_CACHE_DIR": cache_without_blobs(folder / "compiled"),
            "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
            "PYTHONHASHSEED": seed,
        }
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", _WATCHED, str(tests)],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        found.append(done.stdout.split()[-1])
    return found


def test_no_gpu_call_is_made(digests: list[str]) -> None:
    assert len(digests) == 2  # the watched processes ran to their ends


def test_two_lowerings_are_byte_identical(digests: list[str]) -> None:
    assert digests[0] == digests[1]


def test_default_target_without_a_gpu() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU: torch.cuda.is_available()")
    assert default_target() == "portable"


def test_unknown_target() -> None:
    with pytest.raises(
        LoweringError, match=r"unknown target 'h1000' for device 'cuda'; there are: .*h100"
    ):
        CudaPartitioner(target="h1000")


def test_missing_tools_are_named_with_their_install_lines(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *a: None if name == "triton" else find_spec(name, *a),
    )
    monkeypatch.setattr(toolkit, "_candidates", lambda: iter((tmp_path,)))
    monkeypatch.setattr("aoti_plugins.lowering.artifacts.zig._program", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(LoweringError) as raised:
        lower(torch.nn.ReLU(), (torch.ones(2),), partitioner=CudaPartitioner(target="h100"))
    message = str(raised.value)
    assert "pip install triton" in message
    assert "pip install nvidia-cuda-runtime nvidia-cuda-crt nvidia-cuda-cccl" in message
    assert "apt install g++" in message


def test_another_host_machine_is_refused_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aoti_plugins.lowering.artifacts.zig._program", lambda: None)
    with pytest.raises(
        LoweringError, match=r"'orin' needs a C\+\+ compiler for aarch64 machines, and the g\+\+"
    ):
        lower(torch.nn.ReLU(), (torch.ones(2),), partitioner=CudaPartitioner(target="orin"))


def test_what_is_made_of_nothing_is_on_the_device() -> None:
    """ExecuTorch makes ``full`` of a ``cat`` of no elements, and names no device."""

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            angles = torch.arange(0)[:, None] * torch.arange(8.0)
            return x * torch.cat([angles, angles], -1).cos()

    lowered = lower(Model(), (torch.randn(0, 16),), partitioner=CudaPartitioner(target="h100"))
    assert lowered.executorch_program.execution_plan[0].delegates


def test_portable_code_carries_ptx() -> None:
    kernel = GpuKernel("k", "__k_start", b"\x7fELFbinary", ".version 8.0", {}, 0)
    image = CUDA.kernel_image(BY_NAME["portable"], kernel)
    assert image.startswith(MAGIC)
    assert b".version 8.0\0" in image
    assert CUDA.kernel_image(BY_NAME["a100"], kernel) == kernel.binary


class RunningSum(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.cumsum(0)


def test_a_kernel_with_a_workspace() -> None:
    inputs = (torch.ones(1 << 18),)
    program = lower(RunningSum(), inputs, partitioner=CudaPartitioner(target="h100"))
    (method,) = deserialize_pte_binary(program.buffer).program.execution_plan
    assert not method.operators
    assert len(method.delegates) == 1


@pytest.fixture
def tf32_choice() -> Iterator[None]:
    """What a test allows goes back to what it was."""
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    yield
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


@pytest.mark.usefixtures("tf32_choice")
def test_a_program_keeps_choices_for_its_runs() -> None:
    options = LoweringOptions()
    assert CUDA.payload_flags(options) == PayloadFlag.TF32_CONVOLUTION  # PyTorch's defaults
    torch.backends.cudnn.allow_tf32 = False
    assert CUDA.payload_flags(options) == PayloadFlag.NONE
    torch.backends.cuda.matmul.allow_tf32 = True
    partitioner = CudaPartitioner(target="h100", cuda_graphs=True)
    program = lower(torch.nn.ReLU(), (torch.ones(2),), partitioner=partitioner)
    (delegate,) = deserialize_pte_binary(program.buffer).program.backend_delegate_data
    assert decode(bytes(delegate.data)).flags == PayloadFlag.TF32_MATMUL | PayloadFlag.CUDA_GRAPHS


def test_features_name_the_shared_memory() -> None:
    kernels = tuple(GpuKernel(f"k{n}", "", b"", "", {}, n) for n in (0, 65536, 1024))
    assert features(BY_NAME["h100"], GeneratedCode(gpu_kernels=kernels), NO_OPTIONS) == (
        "sm_90a",
        "shared_memory_65536",
    )
    assert features(BY_NAME["portable"], GeneratedCode(), NO_OPTIONS) == (
        "sm_80",
        "compute_80",
        "shared_memory_0",
    )
