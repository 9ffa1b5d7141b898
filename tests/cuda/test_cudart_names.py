"""Every function of the CUDA driver and of cudart that PyTorch's code for models calls is ours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import torch

from aoti_plugins.native_files import include_dir

_CALL = re.compile(r"\b(cu(?:da)?[A-Z]\w*)\(")


def _sources() -> Iterator[Path]:
    """What a wrapper for CUDA includes, and what writes the rest of it."""
    package = Path(torch.__file__).parent
    yield from (package / "include/torch/csrc/inductor/aoti_runtime").glob("*.h")
    yield from (package / "_inductor/codegen/aoti_runtime").iterdir()
    yield package / "_inductor/codegen/cuda/device_op_overrides.py"
    yield package / "_inductor/codegen/cpp_wrapper_gpu.py"


def test_functions_of_cuda_that_blobs_may_call_have_our_link_names() -> None:
    called = {name for file in _sources() for name in _CALL.findall(file.read_text())}
    assert {"cudaMalloc", "cuLaunchKernel"} <= called
    prelude = (include_dir() / "aoti_plugins" / "cuda_blob_prelude.h").read_text()
    ours = set(re.findall(r"^#pragma redefine_extname (\w+) ", prelude, re.M))
    without_versions = {name.removesuffix("_v2") for name in ours}
    assert called <= ours | without_versions
