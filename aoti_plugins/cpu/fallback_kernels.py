"""Kernels that the CPU runtime brings for ops that Inductor does not generate.

Must match native/src/cpu/.
"""

from __future__ import annotations

from aoti_plugins.lowering.aten_kernels import FLOATS, NUMBERS, REAL, aten_kernel

KERNELS = tuple(
    aten_kernel("cpu", op, dtypes)
    for op, dtypes in (
        ("aten::mm.out", NUMBERS),
        ("aten::addmm.out", NUMBERS),
        ("aten::bmm.out", NUMBERS),
        ("aten::baddbmm.out", NUMBERS),
        ("aten::convolution", FLOATS),
        ("aten::cumsum", REAL),
        ("aten::cumprod", REAL),
        ("aten::sort", REAL),
        ("aten::sort.stable", REAL),
        ("aten::topk", REAL),
        ("aten::scatter.src_out", REAL),
        ("aten::scatter.value_out", REAL),
        ("aten::scatter_reduce.two_out", REAL),
    )
)
"""What the runtime brings; dtypes as its tests cover them."""
