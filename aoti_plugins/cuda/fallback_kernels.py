"""Kernels that the CUDA runtime brings for ops that Inductor does not generate.

Must match native/src/cuda/.
"""

from __future__ import annotations

from aoti_plugins.lowering.aten_kernels import FLOATS, REAL, aten_kernel

KERNELS = tuple(
    aten_kernel("cuda", op, dtypes)
    for op, dtypes in (
        ("aten::mm.out", FLOATS),
        ("aten::addmm.out", FLOATS),
        ("aten::bmm.out", FLOATS),
        ("aten::baddbmm.out", FLOATS),
        ("aten::convolution", FLOATS),
        ("aten::cumsum", REAL),
        ("aten::cumprod", REAL),
        ("aten::histc", FLOATS),
        ("aten::sort", REAL),
        ("aten::sort.stable", REAL),
        ("aten::topk", REAL),
        ("aten::scatter.src_out", REAL),
        ("aten::scatter.value_out", REAL),
        ("aten::scatter_reduce.two_out", REAL),
    )
)
"""What the runtime brings; dtypes as its tests cover them."""
