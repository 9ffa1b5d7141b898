"""Let generated kernels tell the host of an index out of range.

PyTorch's own programs get a buffer for messages; in code that is compiled ahead of time a thread
with such an index only ends, its element stays what memory held, and nobody learns of it. Here it
writes 1 to a word that the runtime binds to every kernel with that argument and reads when the GPU
is done. Patched: ``MetalKernel.check_bounds`` and, for the argument, ``codegen_kernel``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from aoti_plugins.errors import PatchError
from aoti_plugins.lowering.inductor.patching import patch, replaced
from aoti_plugins.lowering.inductor.versions import tested_range

# Must match native/src/mps/driver/kernel.h.
_ARGUMENT = "device ::metal::atomic_int* aotip_fault [[buffer(30)]],"
_TELL = "::metal::atomic_store_explicit(aotip_fault, 1, ::metal::memory_order_relaxed);"
_HEAD = "kernel void generated_kernel("


@patch(
    "torch._inductor.codegen.mps.MetalKernel.check_bounds(self, expr, size, lower, upper)",
    "torch._inductor.codegen.mps.MetalKernel.codegen_kernel(self, name)",
    why="An index out of range would leave an element as it is, without an error.",
    until="Inductor reports errors of kernels that are compiled ahead of time",
)
def told_faults() -> Iterator[None]:
    """Let every kernel that looks at indices tell what it finds."""
    from torch._inductor.codegen.mps import MetalKernel

    with (
        replaced(MetalKernel, "check_bounds", _check_bounds),
        replaced(MetalKernel, "codegen_kernel", _codegen_kernel),
    ):
        yield


def _check_bounds(original: Any, self: Any, expr: Any, size: Any, lower: bool, upper: bool) -> None:
    index, end = self.index_to_str(expr), self.index_to_str(size)
    outside = [f"{index} < 0"] * lower + [f"{index} >= {end}"] * upper
    if outside:
        self.compute.writeline(f"if ({' || '.join(outside)}) {{ {_TELL} return; }}")


def _codegen_kernel(original: Any, *args: Any, **kwargs: Any) -> str:
    source: str = original(*args, **kwargs)
    if _TELL not in source:
        return source
    if source.count(_HEAD) != 1:
        raise PatchError(
            f"PyTorch {torch.__version__} writes the head of Metal kernels in another form "
            f"than PyTorch {tested_range()}, so that they cannot tell of wrong indices"
        )
    return source.replace(_HEAD, f"{_HEAD}\n{_ARGUMENT}")
