"""Compile and choose every kernel of a lowering anew.

Inductor keeps the kernels that a process has compiled, with the configuration that was chosen, and
does not hand out the binary of one that it has met before. Inside the block it starts with none,
and afterwards has again those that it had. Compiled code still comes from Triton's cache on disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from unittest import mock

from aoti_plugins.lowering.inductor.patching import patch


@patch(
    "torch._inductor.async_compile.CompiledTritonKernels._cache",
    "torch._inductor.codecache.PyCodeCache.modules",
    "torch._inductor.codecache.CudaKernelParamCache.cache",
    why="Inductor does not hand out the binary of a kernel that it has met before.",
    until="aot_compile forgets kernels between calls",
)
def fresh_kernels() -> Iterator[None]:
    """Forget compiled kernels for the time of the block."""
    from torch._inductor.async_compile import CompiledTritonKernels
    from torch._inductor.codecache import CudaKernelParamCache, PyCodeCache

    with (
        mock.patch.object(CompiledTritonKernels, "_cache", {}),
        mock.patch.multiple(PyCodeCache, modules=[], modules_no_attr={}, linemaps={}),
        # Changed in place: other modules hold its methods.
        mock.patch.dict(CudaKernelParamCache.cache, clear=True),
    ):
        yield
