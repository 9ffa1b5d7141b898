"""Answer Inductor's questions about an Apple GPU from a description.

On a machine without one, Inductor takes every GPU for CUDA's and asks the Metal device for its
number of cores. Patched, and put back: ``get_gpu_type`` in every module of Inductor's that imported
it, ``is_big_gpu``, ``torch.backends.mps.get_core_count``. Remembered answers are dropped on both
sides of the block.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from types import ModuleType
from unittest import mock

import torch

from aoti_plugins.lowering.inductor.gpu.answers import fresh_answers
from aoti_plugins.lowering.inductor.patching import patch

# Where Inductor asks for the type of the GPU; imported first, so that none is missed.
_MODULES_THAT_ASK = (
    "torch._inductor.autotune_process",
    "torch._inductor.codegen.cpp_wrapper_gpu",
    "torch._inductor.codegen.cpp_wrapper_mps",
    "torch._inductor.fx_passes.joint_graph",
    "torch._inductor.fx_passes.post_grad",
)


@patch(
    "torch._inductor.utils.get_gpu_type",
    "torch._inductor.utils.is_big_gpu(index_or_device)",
    "torch.backends.mps.get_core_count",
    why="Inductor takes every GPU for CUDA's.",
    until="aot_compile takes a target",
)
def described_apple_gpu(cores: int) -> Iterator[None]:
    """Let this process believe in one Apple GPU.

    Args:
        cores: of the GPU; they only steer how large reductions are split.
    """
    from torch._inductor import utils

    for name in _MODULES_THAT_ASK:
        importlib.import_module(name)
    asking = list(_holders(utils.get_gpu_type))
    with contextlib.ExitStack() as stack:
        stack.enter_context(fresh_answers())
        for module in asking:
            stack.enter_context(mock.patch.object(module, "get_gpu_type", return_value="mps"))
        # No template for matrix products is weighed, so its answer only makes a warning.
        stack.enter_context(mock.patch.object(utils, "is_big_gpu", return_value=False))
        mps = torch.backends.mps
        stack.enter_context(mock.patch.object(mps, "get_core_count", return_value=cores))
        yield


@patch(
    "torch.backends.mps.is_macos_or_newer(major, minor)",
    why="PyTorch 2.11 asks this machine's macOS whether it has bfloat16.",
    until="PyTorch 2.12 is the oldest that is supported",
    before=(2, 12),
)
def described_macos() -> Iterator[None]:
    """Believe in a macOS that has all that code is generated for."""
    with mock.patch.object(torch.backends.mps, "is_macos_or_newer", return_value=True):
        yield


def _holders(get_gpu_type: object) -> Iterator[ModuleType]:
    """Modules of Inductor's that have the function under its own name."""
    for name, module in list(sys.modules.items()):
        inside = name.startswith("torch._inductor.") and isinstance(module, ModuleType)
        if inside and vars(module).get("get_gpu_type") is get_gpu_type:
            yield module
