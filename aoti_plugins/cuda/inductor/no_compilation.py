"""Generate a wrapper without compiling the kernels that it launches.

Enough to read which C shims it calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from unittest import mock

from aoti_plugins.lowering.inductor.patching import patch


@patch(
    "torch._inductor.codegen.wrapper.PythonWrapperCodegen.generate_and_run_autotune_block",
    "torch._inductor.codegen.cpp_wrapper_gpu.DeferredTritonCallWrapper.generate(self, wrapper)",
    why="A question about an op would compile its kernels.",
    until="Inductor has a switch for it",
)
def no_kernel_compilation() -> Iterator[None]:
    """Leave kernels uncompiled and their launches out of the wrapper."""
    from torch._inductor.codegen import cpp_wrapper_gpu, wrapper

    nothing = mock.patch.object(
        wrapper.PythonWrapperCodegen, "generate_and_run_autotune_block", return_value=None
    )
    no_launch = mock.patch.object(
        cpp_wrapper_gpu.DeferredTritonCallWrapper, "generate", return_value=None
    )
    with nothing, no_launch:
        yield
