"""Refuse Triton kernels by name where they cannot run, or would be lost.

An op of ``torch.library.triton_op`` becomes a kernel launch while Inductor traces it, and on the
CPU or an Apple GPU that ends in a complaint about missing drivers. A launch with ``wrap_triton`` in
a decomposition is worse: it writes to a tensor while nothing in the graph says so, and is dropped
as dead code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from aoti_plugins.errors import UnsupportedError
from aoti_plugins.lowering.inductor.patching import patch, replaced


def no_triton() -> AbstractContextManager[None]:
    """Raise ``UnsupportedError`` where a program launches a Triton kernel: not on this device."""
    return _refused(lambda: True, "for NVIDIA GPUs only")


def no_launch_in_decompositions() -> AbstractContextManager[None]:
    """Raise ``UnsupportedError`` where a decomposition launches a kernel, and not an op does."""
    from torch.fx.experimental.proxy_tensor import get_proxy_mode

    return _refused(
        # Not traced is what an op does to find out what its result looks like.
        lambda: get_proxy_mode() is not None,
        "which a decomposition cannot: make the launch an op, with torch.library.triton_op, and "
        "call that op",
    )


@patch(
    "torch._higher_order_ops.triton_kernel_wrap.TritonKernelWrapperMutation.__call__("
    "self, kernel_idx, kwargs)",
    "torch._higher_order_ops.triton_kernel_wrap.TritonKernelWrapperFunctional.__call__("
    "self, kernel_idx, kwargs)",
    why="Launches of Triton kernels fail without a name, or are dropped as dead code.",
    until="Inductor says that a device has no Triton, and PyTorch keeps such launches",
)
def _refused(applies: Callable[[], bool], why: str) -> Iterator[None]:
    from torch._higher_order_ops.triton_kernel_wrap import (
        TritonKernelWrapperFunctional,
        TritonKernelWrapperMutation,
        kernel_side_table,
    )

    def launch(original: Any, self: Any, kernel_idx: int, *args: Any, **kwargs: Any) -> Any:
        if not applies():
            return original(self, kernel_idx, *args, **kwargs)
        kernel = kernel_side_table.get_kernel(kernel_idx)
        function = getattr(kernel, "base_fn", kernel)  # of an autotuner
        name = getattr(function, "__name__", "of no name")
        raise UnsupportedError(f"it launches the Triton kernel {name!r}, {why}")

    with (
        replaced(TritonKernelWrapperMutation, "__call__", launch),
        replaced(TritonKernelWrapperFunctional, "__call__", launch),
    ):
        yield
