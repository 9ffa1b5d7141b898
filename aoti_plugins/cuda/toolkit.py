"""What lowering for CUDA needs on this machine: Triton, headers, a compiler; no GPU, no driver."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from aoti_plugins.errors import LoweringError
from aoti_plugins.lowering.artifacts.cxx import cxx_compiler
from aoti_plugins.types import Target

# What the generated C++ includes.
_HEADERS = ("cuda.h", "cuda_runtime.h", "cuda_bf16.h", "crt/host_config.h", "nv/target")
_INSTALL_HEADERS = (
    "pip install nvidia-cuda-runtime nvidia-cuda-crt nvidia-cuda-cccl\n"
    "    (or a CUDA toolkit, with CUDA_HOME set to its folder)"
)


def check(target: Target) -> None:
    """Say what is missing on this machine to lower for a GPU.

    Raises:
        LoweringError: names everything that is missing, each with how to install it.
    """
    missing = []
    if importlib.util.find_spec("triton") is None:
        missing.append("Triton, which compiles the kernels:\n    pip install triton")
    if _include_dir() is None:
        missing.append(f"the CUDA headers ({', '.join(_HEADERS)}):\n    {_INSTALL_HEADERS}")
    try:
        cxx_compiler(target.machine, target.name)
    except LoweringError as error:
        missing.append(str(error))
    if missing:
        raise LoweringError("lowering for CUDA needs\n- " + "\n- ".join(missing))


def include_dir() -> Path:
    """The folder of CUDA's headers.

    Raises:
        LoweringError: there is none.
    """
    found = _include_dir()
    if found is None:
        raise LoweringError(f"no CUDA headers; install them:\n    {_INSTALL_HEADERS}")
    return found


def _include_dir() -> Path | None:
    return next((path for path in _candidates() if _is_complete(path)), None)


def _is_complete(folder: Path) -> bool:
    return all((folder / header).exists() for header in _HEADERS)


def _candidates() -> Iterator[Path]:
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if chosen := os.environ.get(variable):
            yield Path(chosen) / "include"
    yield from _packages()
    if nvcc := shutil.which("nvcc"):
        yield Path(nvcc).resolve().parent.parent / "include"
    yield Path("/usr/local/cuda/include")


@functools.cache
def _packages() -> tuple[Path, ...]:
    """Folders of PyPI's packages: all in ``nvidia/cu13`` since CUDA 13."""
    spec = importlib.util.find_spec("nvidia")
    roots = [Path(root) for root in spec.submodule_search_locations or ()] if spec else []
    return tuple(
        found for root in roots for found in sorted(root.glob("cu1*/include"), reverse=True)
    )
