"""Fourier transforms as matrix products.

A transform of ``a * b`` elements is ``b`` transforms of ``a``, factors, and ``a`` transforms of
``b``. So sizes split into two factors near their root, these again, and what is left, a small
number or a prime, is a product with the matrix of its powers of a root of one. Powers are made from
integers below the size, so that they are as exact as the dtype.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from aoti_plugins.lowering.decompositions.complex_numbers import from_parts, parts
from aoti_plugins.lowering.decompositions.windows import along

_DIRECT = 64
_LARGEST_PRIME = 2048

Pair = tuple[Tensor, Tensor]


def fft_c2c(x: Tensor, dim: Sequence[int], normalization: int, forward: bool) -> Any:
    """``aten._fft_c2c.default``."""
    if not _takes(x, dim):
        return NotImplemented
    return from_parts(*_along_all(parts(x), dim, normalization, forward))


def fft_r2c(x: Tensor, dim: Sequence[int], normalization: int, onesided: bool) -> Any:
    """``aten._fft_r2c.default``; one-sided: the last dimension has ``size // 2 + 1`` elements."""
    if not _takes(x, dim) or x.dtype not in (torch.float32, torch.float64):
        return NotImplemented
    size = x.size(dim[-1])
    real, imaginary = _along_all((x, torch.zeros_like(x)), dim, normalization, True)
    if onesided:
        real, imaginary = (one.narrow(dim[-1], 0, size // 2 + 1) for one in (real, imaginary))
    return from_parts(real, imaginary)


def fft_c2r(x: Tensor, dim: Sequence[int], normalization: int, last_dim_size: int) -> Any:
    """``aten._fft_c2r.default``: inverse, of the one-sided half of a symmetric transform."""
    last = dim[-1]
    if not _takes(x, dim) or not isinstance(last_dim_size, int):
        return NotImplemented
    if x.size(last) < last_dim_size // 2 + 1:
        return NotImplemented
    pair = parts(x)
    if len(dim) > 1:
        pair = _along_all(pair, dim[:-1], 0, False)
    found = _transform(mirrored(pair, last, last_dim_size), last, False)[0]
    sizes = [last_dim_size if d == last else x.size(d) for d in dim]
    return found * number(scale(sizes, normalization), found)


def mirrored(pair: Pair, dim: int, size: int) -> Pair:
    """The whole of a symmetric transform of ``size`` elements from its first ``size // 2 + 1``.

    The imaginary parts of the elements that are their own mirrors do not count.
    """
    half = size // 2 + 1
    real, imaginary = (one.narrow(dim, 0, half) for one in pair)
    order = along(torch.arange(half, device=real.device), dim % real.dim(), real.dim())
    imaginary = torch.where((order == 0) | (order * 2 == size), 0, imaginary)
    rest = size - half
    others = [one.narrow(dim, 1, rest).flip(dim) for one in (real, imaginary)]
    return torch.cat((real, others[0]), dim), torch.cat((imaginary, -others[1]), dim)


def _takes(x: Tensor, dim: Sequence[int]) -> bool:
    sizes = [x.size(d) for d in dim]
    if not sizes or not all(isinstance(n, int) and n > 0 for n in sizes):
        return False
    return max(max(_primes(n), default=1) for n in sizes) <= _LARGEST_PRIME


def _along_all(pair: Pair, dim: Sequence[int], normalization: int, forward: bool) -> Pair:
    factor = scale([pair[0].size(d) for d in dim], normalization)
    for d in dim:
        pair = _transform(pair, d, forward)
    if factor == 1:
        return pair
    by = number(factor, pair[0])
    return pair[0] * by, pair[1] * by


def scale(sizes: Sequence[int], normalization: int) -> float:
    """0: none; 1: by the root of the number of elements; 2: by that number."""
    count = math.prod(sizes)
    return (1.0, count**-0.5, 1 / count)[normalization]


def _transform(pair: Pair, dim: int, forward: bool) -> Pair:
    real, imaginary = (one.movedim(dim, -1) for one in pair)
    shape = real.shape
    rows = _rows((real.reshape(-1, shape[-1]), imaginary.reshape(-1, shape[-1])), forward)
    back = [one.reshape(shape).movedim(-1, dim) for one in rows]
    return back[0], back[1]


def _rows(pair: Pair, forward: bool) -> Pair:
    """``[rows, n]``, the transform of each row."""
    size = pair[0].size(1)
    first = _factor(size)
    if size <= _DIRECT or first == 1:
        return _product(pair, _roots(pair[0], size, size, size, forward))
    second = size // first
    # Element j * first + i, so along j first: [rows, first, second].
    split = tuple(one.view(-1, second, first).mT.reshape(-1, second) for one in pair)
    real, imaginary = (one.view(-1, first, second) for one in _rows((split[0], split[1]), forward))
    turn_real, turn_imaginary = _roots(real, first, second, size, forward)
    turned = (
        real * turn_real - imaginary * turn_imaginary,
        real * turn_imaginary + imaginary * turn_real,
    )
    across = [one.mT.reshape(-1, first) for one in turned]  # [rows * second, first]
    found = _rows((across[0], across[1]), forward)
    joined = [one.view(-1, second, first).mT.reshape(-1, size) for one in found]
    return joined[0], joined[1]


def _roots(like: Tensor, rows: int, columns: int, size: int, forward: bool) -> Pair:
    """``[rows, columns]``: the root of one of ``size`` to the power of row times column."""
    order = torch.arange(max(rows, columns), device=like.device)
    power = (order[:rows, None] * order[None, :columns]) % size
    angle = power.to(like.dtype) * number(2 * math.pi / size, like)
    return angle.cos(), -angle.sin() if forward else angle.sin()


def number(value: float, like: Tensor) -> Tensor:
    """A number in the dtype of a tensor: ExecuTorch rounds plain ones to float32."""
    return torch.full((), value, dtype=like.dtype, device=like.device)


def _product(pair: Pair, matrix: Pair) -> Pair:
    (a, b), (c, d) = pair, matrix
    return a @ c - b @ d, a @ d + b @ c


def _factor(size: int) -> int:
    """The largest divisor of ``size`` up to its root."""
    return max(d for d in range(1, math.isqrt(size) + 1) if size % d == 0)


def _primes(size: int) -> list[int]:
    found, divisor = [], 2
    while divisor * divisor <= size:
        while size % divisor == 0:
            found.append(divisor)
            size //= divisor
        divisor += 1
    return [*found, size] if size > 1 else found
