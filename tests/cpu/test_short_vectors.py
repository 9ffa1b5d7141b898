"""Vectors of elements of 8 and 16 bits, of which a part is loaded."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import sympy
import torch
from torch import Tensor, nn
from torch._inductor import cpu_vec_isa
from torch._inductor.codegen.cpp import CppVecKernel

from aoti_plugins.cpu.inductor.short_vectors import short_vectors
from aoti_plugins.lowering.inductor.vector_isa import vector_isa

Run = Callable[..., list[Tensor]]
LENGTHS = (5, 8, 16, 24, 100, 4099)


def line(isa: str, dtype: torch.dtype, elements: int, lanes: int) -> str:
    kernel = CppVecKernel.__new__(CppVecKernel)
    with vector_isa(isa), short_vectors():
        kernel.vec_isa = cpu_vec_isa.pick_vec_isa()
        kernel.num_elems, kernel.tiling_factor = elements, lanes
        return str(kernel._get_vec_load_line("p", sympy.Integer(4), dtype))


@pytest.mark.parametrize(
    ("isa", "dtype", "elements", "load"),
    [
        ("avx2", torch.int8, 8, "_mm256_zextsi128_si256(_mm_loadl_epi64("),
        ("avx2", torch.uint8, 8, "_mm256_zextsi128_si256(_mm_loadl_epi64("),
        ("avx2", torch.bfloat16, 8, "_mm256_zextsi128_si256(_mm_loadu_si128("),
        ("avx512", torch.int8, 16, "_mm512_zextsi128_si512(_mm_loadu_si128("),
        ("avx512", torch.float16, 16, "_mm512_zextsi256_si512(_mm256_loadu_si256("),
        ("avx512", torch.bfloat16, 4, "_mm512_zextsi128_si512(_mm_loadl_epi64("),
        ("avx2", torch.int8, 7, "::loadu("),  # of a tail
        ("avx2", torch.float32, 8, "::loadu("),
        ("neon", torch.int8, 4, "::loadu("),
    ],
)
def test_a_part_is_one_instruction(isa: str, dtype: torch.dtype, elements: int, load: str) -> None:
    found = line(isa, dtype, elements, {"avx2": 8, "avx512": 16, "neon": 4}[isa])
    assert load in found
    assert "p + " in found


class Mixed(nn.Module):
    """Elements of 8 and 16 bits become floats, and floats become these."""

    def forward(self, numbers: list[Tensor]) -> list[Tensor]:
        floats = [one.float() * 0.5 + 1 for one in numbers]
        return [x.sin() for x in floats] + [
            (x * 3).clamp(0, 100).to(one.dtype) for x, one in zip(floats, numbers, strict=True)
        ]


def test_elements_are_those_of_eager(run: Run) -> None:
    dtypes = (torch.int8, torch.uint8, torch.bfloat16, torch.float16)
    numbers = [
        torch.randn(length).mul(30).abs().to(dtype) for dtype in dtypes for length in LENGTHS
    ]
    for found, expected in zip(run(Mixed(), numbers), Mixed()(numbers), strict=True):
        torch.testing.assert_close(found, expected)
