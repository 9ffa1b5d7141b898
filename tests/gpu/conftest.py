"""Programs for the GPU of this machine, lowered on it and, in a process that sees none, without."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from filelock import FileLock
from support import lower

WAYS = ("measured", "graphs", "estimated")

_LOWER = """
import sys
sys.path.insert(0, {tests!r})
import torch
torch.backends.cudnn.allow_tf32 = False
from support import load_example, lower
from aoti_plugins import CudaPartitioner
model, inputs = load_example("models").MODELS[{name!r}]()
program = lower(model, inputs, partitioner=CudaPartitioner(target={target!r}))
open({path!r}, "wb").write(program.buffer)
"""


class Counter(torch.nn.Module):
    """Counts its calls in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x`` plus the number of this call."""
        self.calls.add_(1)
        return x + self.calls


class Choice(torch.nn.Module):
    """Chooses on the host what the GPU computes."""

    def forward(self, n: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """Sine of ``x`` for ``n`` above 3, else its cosine."""
        return torch.cond(n > 3, torch.sin, torch.cos, (x,))


_OWN_MODELS: dict[str, Callable[[], Any]] = {
    "counter": lambda: (Counter(), (torch.ones(3),)),
    "choice": lambda: (Choice(), (torch.tensor(5), torch.ones(3))),
}


@pytest.fixture(scope="session")
def gpu_programs(
    shared_dir: Path, example_models: dict[str, Callable[[], Any]]
) -> Callable[[str, str], Path]:
    """``gpu_programs("mlp", "measured")`` is a program for this GPU; the way is one of ``WAYS``."""
    from aoti_plugins import CudaPartitioner

    def without_gpu(name: str, path: Path) -> None:
        from aoti_plugins.cuda.target import device_target

        here = device_target()
        assert here is not None
        tests = str(Path(__file__).parents[1])
        code = _LOWER.format(tests=tests, name=name, target=_named(here), path=str(path))
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
        subprocess.run([sys.executable, "-c", code], env=environment, check=True)

    def lowered(name: str, way: str) -> Path:
        path = shared_dir / f"gpu_{name}_{way}.pte"
        with FileLock(f"{path}.lock"):
            if path.exists():
                return path
            if way != "estimated":
                model, inputs = {**example_models, **_OWN_MODELS}[name]()
                partitioner = CudaPartitioner(target="native", cuda_graphs=way == "graphs")
                program = lower(model, inputs, partitioner=partitioner)
                path.write_bytes(program.buffer)
            else:
                without_gpu(name, path)
        return path

    return lowered


@pytest.fixture(scope="session")
def upstream_programs(shared_dir: Path) -> Callable[[str, str], Path]:
    """``upstream_programs("mlp", "listed")`` is the folder that upstream_lowering.py wrote."""

    def lowered(model: str, generation: str) -> Path:
        folder = shared_dir / f"upstream_{model}_{generation}"
        with FileLock(f"{folder}.lock"):
            if not (folder / "calls.pt").exists():
                folder.mkdir(exist_ok=True)
                script = Path(__file__).with_name("upstream_lowering.py")
                command = [sys.executable, str(script), model, generation, str(folder)]
                # Upstream's lowerings of one model remove each other's files from a common cache.
                cache = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
                done = subprocess.run(
                    command,
                    env={**os.environ, **cache},
                    capture_output=True,
                    text=True,
                    check=False,
                )
                assert done.returncode == 0, f"{command} failed:\n{done.stderr[-8000:]}"
        return folder

    return lowered


@pytest.fixture(autouse=True)
def _shares_the_gpu(request: pytest.FixtureRequest, shared_dir: Path) -> Iterator[None]:
    alone = request.node.get_closest_marker("alone") is not None
    with (shared_dir / "gpu.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield


@pytest.fixture(autouse=True)
def _needs_a_gpu() -> None:
    if not torch.cuda.is_available():
        pytest.fail("tests marked gpu need an NVIDIA GPU that PyTorch sees")
    # Blobs then check the layout of what kernels give them.
    os.environ["AOTI_RUNTIME_CHECK_INPUTS"] = "1"
    # Programs are compared to more digits than TF32 has.
    torch.backends.cudnn.allow_tf32 = False


def _named(here: Any) -> str:
    """The name in the table of targets of the GPU that is here."""
    from aoti_plugins.cuda.target import GPUS

    for target in GPUS:
        if (target.capability, target.multiprocessors) == (here.capability, here.multiprocessors):
            return str(target.name)
    pytest.skip(f"the table of targets has no {torch.cuda.get_device_name()}")
