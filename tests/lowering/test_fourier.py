"""Inverse transforms that end in real numbers, made of those that do not, against PyTorch's."""

from __future__ import annotations

import pytest
import torch

from aoti_plugins.lowering.decompositions import fourier_kernels

SHAPES = [  # of the one-sided half, dims, the size of the last one of these
    ((3, 6), [1], 10),
    ((3, 6), [1], 11),
    ((6, 3), [0], 10),
    ((2, 2), [1], 2),
    ((3, 9), [1], 10),
    ((4, 5, 6), [0, 2], 10),
    ((4, 5, 6), [2, 1], 8),
    ((16, 1025), [1], 2048),
]


@pytest.mark.parametrize(("shape", "dims", "size"), SHAPES)
@pytest.mark.parametrize("normalization", [0, 1, 2])
@pytest.mark.parametrize(
    ("dtype", "limit"), [(torch.complex64, 5e-7), (torch.complex128, 1e-15)], ids=["32", "64"]
)
def test_complex_to_real(
    shape: tuple[int, ...],
    dims: list[int],
    size: int,
    normalization: int,
    dtype: torch.dtype,
    limit: float,
) -> None:
    x = torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(size))
    half = x.narrow(dims[-1], 0, size // 2 + 1).contiguous()
    expected = torch.ops.aten._fft_c2r(half, dims, normalization, size)
    found = fourier_kernels.fft_c2r(x, dims, normalization, size)
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    assert (found - expected).norm() <= limit * expected.norm()


def test_too_short_a_half_is_left_alone() -> None:
    half = torch.randn(3, 5, dtype=torch.complex64)
    assert fourier_kernels.fft_c2r(half, [1], 0, 10) is NotImplemented
