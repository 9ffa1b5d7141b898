"""A part of a vector is loaded by one instruction.

Vectors have as many elements as floats fit into one, so those of 8 and 16 bits fill a quarter or a
half. PyTorch's ``loadu(pointer, count)`` copies such a part to the stack and loads a whole vector
from there, which waits until the copy has left the processor's store buffer, for each vector.
"""

from __future__ import annotations

from typing import Any

import torch

from aoti_plugins.lowering.inductor.patching import replacement

_DTYPES = (torch.int8, torch.uint8, torch.bfloat16, torch.float16)
# What loads so many bytes, and the bits of what it returns.
_LOADS = {
    8: ("_mm_loadl_epi64(reinterpret_cast<const __m128i*>({}))", 128),
    16: ("_mm_loadu_si128(reinterpret_cast<const __m128i*>({}))", 128),
    32: ("_mm256_loadu_si256(reinterpret_cast<const __m256i*>({}))", 256),
}


@replacement(
    "torch._inductor.codegen.cpp.CppVecKernel._get_vec_load_line("
    "self, var, index, dtype, load_mask)",
    "torch._inductor.codegen.cpp.CppVecKernel._get_num_vectors(self, dtype)",
    "torch._inductor.codegen.cpp.cexpr_index",
    "torch._inductor.cpu_vec_isa.VecAVX2",
    "torch._inductor.cpu_vec_isa.VecAVX512",
    why="Code on numbers of 8 bits, bfloat16 and float16 takes several times as long.",
    until="Vectorized::loadu of a part does not go through memory",
)
def short_vectors(
    original: Any, self: Any, var: str, index: Any, dtype: torch.dtype, load_mask: Any = None
) -> str:
    """The expression that loads elements, beginning at an index."""
    from torch._inductor.codegen.cpp import cexpr_index

    width = _vector_bits(self.vec_isa)
    is_short = dtype in _DTYPES and load_mask is None and self._get_num_vectors(dtype) == 1
    load = _LOADS.get(self.num_elems * dtype.itemsize) if is_short and width else None
    if load is None or load[1] >= width:
        return str(original(self, var, index, dtype, load_mask))
    instruction, bits = load
    place = f"{var} + {cexpr_index(index)}" if index != 0 else var
    part = instruction.format(place)
    wide = f"_mm{width}_zextsi{bits}_si{width}({part})"
    return f"{self._get_vec_type(dtype)}({wide})"


def _vector_bits(isa: Any) -> int:
    """The bits of a vector on x86; 0 elsewhere."""
    from torch._inductor.cpu_vec_isa import VecAVX2, VecAVX512

    if isinstance(isa, VecAVX512):
        return 512
    return 256 if isinstance(isa, VecAVX2) else 0
