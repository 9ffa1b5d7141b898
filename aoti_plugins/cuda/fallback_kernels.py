"""Kernels that the CUDA runtime brings for ops that Inductor does not generate.

Must match native/src/cuda/.
"""

from __future__ import annotations

from aoti_plugins.lowering.aten_kernels import FLOATS, aten_kernel

KERNELS = tuple(
    aten_kernel("cuda", op, dtypes)
    for op, dtypes in (
        ("aten::mm.out", FLOATS),
        ("aten::addmm.out", FLOATS),
        ("aten::bmm.out", FLOATS),
        ("aten::baddbmm.out", FLOATS),
    )
)
"""What the runtime brings; dtypes as its tests cover them."""
