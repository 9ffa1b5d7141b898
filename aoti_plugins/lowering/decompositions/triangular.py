"""Linear algebra over the inverse of triangular matrices.

The inverse of ``[[a, 0], [c, b]]`` is ``[[a', 0], [-b' c a', b']]`` with the inverses of ``a`` and
``b``. So blocks double from single elements on, all blocks of a size in one batch of products.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_DTYPES = (torch.float32, torch.float64)


def triangular_solve(
    b: Tensor,
    a: Tensor,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> Any:
    """``aten.triangular_solve.default``: solves ``a @ x = b``, and a copy of ``a``."""
    if not _takes(a, b):
        return NotImplemented
    inverse = _inverse_of(a, upper, unitriangular)
    a, b = _same_batch(a, b)
    return (inverse.mT if transpose else inverse) @ b, a.clone()


def cholesky_solve(b: Tensor, factor: Tensor, upper: bool = False) -> Any:
    """``aten.cholesky_solve.default``: of ``factor @ factor.T``, or of ``factor.T @ factor``."""
    if not _takes(factor, b):
        return NotImplemented
    inverse = _inverse_of(factor, upper, False)
    one, other = (inverse, inverse.mT) if upper else (inverse.mT, inverse)
    return one @ (other @ b)


def cholesky_inverse(factor: Tensor, upper: bool = False) -> Any:
    """``aten.cholesky_inverse.default``."""
    if not _takes(factor):
        return NotImplemented
    inverse = _inverse_of(factor, upper, False)
    return inverse @ inverse.mT if upper else inverse.mT @ inverse


def ormqr(
    vectors: Tensor, factors: Tensor, x: Tensor, left: bool = True, transpose: bool = False
) -> Any:
    """``aten.ormqr.default``: with the product of the reflections ``1 - factor * v @ v.T``.

    All of them are ``1 - v @ t @ v.T`` with an upper triangular ``t``.
    """
    count = factors.size(-1)
    if not _takes(vectors, x) or not isinstance(count, int):
        return NotImplemented
    if count == 0:
        return x.clone()
    v = vectors[..., :count].tril(-1) + torch.eye(
        vectors.size(-2), count, dtype=x.dtype, device=x.device
    )
    above = (v.mT @ v).triu(1) * factors[..., None, :]
    t = factors[..., :, None] * _inverse_of(above, True, True)
    t = t.mT if transpose else t
    return x - v @ (t @ (v.mT @ x)) if left else x - ((x @ v) @ t) @ v.mT


def lu_unpack(
    lu: Tensor, pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> Any:
    """``aten.lu_unpack.default``: the permutation, the lower and the upper factor."""
    rows, columns = lu.shape[-2:]
    count = pivots.size(-1)
    if not all(isinstance(n, int) for n in (rows, columns, count)):
        return NotImplemented
    nothing = lu.new_empty(0)
    lower = upper = permutation = nothing
    if unpack_data:
        small = min(rows, columns)
        one = torch.eye(rows, small, dtype=lu.dtype, device=lu.device)
        lower = lu[..., :small].tril(-1) + one
        upper = lu[..., :small, :].triu()
    if unpack_pivots:
        order = torch.arange(rows, device=lu.device)
        place = order.expand(*pivots.shape[:-1], rows)
        for step in range(count):
            other = (pivots[..., step : step + 1] - 1).to(torch.int64)
            swapped = torch.where(place == other, step, place)
            place = torch.where(place == step, other, swapped)
        # Row r of the product goes back to where it came from.
        permutation = (place[..., :, None] == order).to(lu.dtype)
    return permutation, lower, upper


def _takes(*tensors: Tensor) -> bool:
    static = all(isinstance(n, int) for tensor in tensors for n in tensor.shape[-2:])
    return static and all(tensor.dtype in _DTYPES for tensor in tensors)


def _inverse_of(a: Tensor, upper: bool, unit: bool) -> Tensor:
    """The inverse of one triangle of ``a``."""
    return _lower_inverse(a.mT, unit).mT if upper else _lower_inverse(a, unit)


def _lower_inverse(a: Tensor, unit: bool) -> Tensor:
    size = a.size(-1)
    if size == 0:
        return a.clone()
    whole = 1 << (size - 1).bit_length()
    padded = torch.nn.functional.pad(a, (0, whole - size, 0, whole - size))
    order = torch.arange(whole, device=a.device)
    diagonal = torch.diagonal(padded, dim1=-2, dim2=-1)
    diagonal = torch.where(order < size, torch.ones_like(diagonal) if unit else diagonal, 1)
    blocks = (1 / diagonal)[..., None, None]  # [..., count, n, n]
    n = 1
    while n < whole:
        count = whole // (2 * n)
        # What is below the first of each pair of blocks.
        tiles = padded.view(*a.shape[:-2], count, 2, n, count, 2, n)
        below = torch.diagonal(tiles[..., :, 1, :, :, 0, :], dim1=-4, dim2=-2)
        below = below.movedim(-1, -3)
        first, second = blocks[..., 0::2, :, :], blocks[..., 1::2, :, :]
        corner = -(second @ below @ first)
        top = torch.cat((first, torch.zeros_like(first)), -1)
        blocks = torch.cat((top, torch.cat((corner, second), -1)), -2)
        n *= 2
    return blocks[..., 0, :size, :size]


def _same_batch(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return a.expand(*batch, *a.shape[-2:]), b.expand(*batch, *b.shape[-2:])
