"""Answer Inductor's questions about an Apple GPU from a description.

On a machine without one, Inductor takes every GPU for CUDA's and asks the Metal device for its
number of cores. Patched, and put back: ``get_gpu_type`` in every module of Inductor's that imported
it, ``is_big_gpu``, ``torch.backends.mps.get_core_count``. Answers that Inductor has cached are
dropped on both sides of the block. Tested with torch 2.11 and 2.13. Can go when ``aot_compile``
takes a target.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch

# Where Inductor asks for the type of the GPU; imported first, so that none is missed.
_MODULES_THAT_ASK = (
    "torch._inductor.autotune_process",
    "torch._inductor.codegen.cpp_wrapper_gpu",
    "torch._inductor.codegen.cpp_wrapper_mps",
    "torch._inductor.fx_passes.joint_graph",
    "torch._inductor.fx_passes.post_grad",
)


@contextlib.contextmanager
def described_apple_gpu(cores: int) -> Iterator[None]:
    """Let this process believe in one Apple GPU.

    Args:
        cores: of the GPU; they only steer how large reductions are split.
    """
    from torch._inductor import utils

    modules = [importlib.import_module(name) for name in _MODULES_THAT_ASK]
    original = utils.get_gpu_type
    asking = [m for m in (utils, *modules) if getattr(m, "get_gpu_type", None) is original]
    with contextlib.ExitStack() as stack:
        stack.enter_context(_fresh_answers(original))
        for module in asking:
            stack.enter_context(mock.patch.object(module, "get_gpu_type", return_value="mps"))
        # No template for matrix products is weighed, so its answer only makes a warning.
        stack.enter_context(mock.patch.object(utils, "is_big_gpu", return_value=False))
        mps = torch.backends.mps
        stack.enter_context(mock.patch.object(mps, "get_core_count", return_value=cores))
        yield


@contextlib.contextmanager
def _fresh_answers(get_gpu_type: Any) -> Iterator[None]:
    from torch._inductor.runtime.hints import DeviceProperties

    cached = [one for one in (get_gpu_type, DeviceProperties.create) if hasattr(one, "cache_clear")]
    for one in cached:
        one.cache_clear()
    try:
        yield
    finally:
        for one in cached:
            one.cache_clear()
