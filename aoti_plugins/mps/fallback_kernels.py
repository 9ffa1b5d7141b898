"""Kernels that the MPS runtime brings for ops that Inductor does not generate.

Must match native/src/mps/.
"""

from __future__ import annotations

from aoti_plugins.lowering.aten_kernels import aten_kernel

_FLOATS = ("float16", "float32", "bfloat16")
_NUMBERS = (*_FLOATS, "uint8", "int8", "int16", "int32", "int64")
_REAL = (*_NUMBERS, "bool")

KERNELS = tuple(
    aten_kernel("mps", op, dtypes)
    for op, dtypes in (
        ("aten::mm.out", _NUMBERS),
        ("aten::addmm.out", _NUMBERS),
        ("aten::bmm.out", _NUMBERS),
        ("aten::baddbmm.out", _NUMBERS),
        ("aten::convolution", _FLOATS),
        ("aten::cumsum", _REAL),
        ("aten::cumprod", _REAL),
        ("aten::sort", _REAL),
        ("aten::sort.stable", _REAL),
        ("aten::topk", _REAL),
        ("aten::scatter.src_out", _REAL),
        ("aten::scatter.value_out", _REAL),
        ("aten::scatter_reduce.two_out", _REAL),
    )
)
"""What the runtime brings; dtypes as its tests cover them."""
