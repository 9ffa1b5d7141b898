"""Fourier transforms for cuFFT, as the runtime's shims take them.

They take up to three dimensions, the last ones of a row-major tensor. Other dimensions are moved
there and back, more of them are done one group after the other.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from aoti_plugins.lowering.decompositions.complex_numbers import from_parts, parts, view_as_complex
from aoti_plugins.lowering.decompositions.fourier import mirrored, number, scale

_MOST_DIMS = 3
_NONE = 0


def fft_c2c(x: Tensor, dim: Sequence[int], normalization: int, forward: bool) -> Any:
    """``aten._fft_c2c.default``."""
    dims = [d % x.dim() for d in dim]
    if not dims or _is_direct(x, dims):
        return NotImplemented
    for group in _groups(dims):
        x = _back(
            torch.ops.aten._fft_c2c(_last(x, group), _places(x, group), normalization, forward),
            group,
        )
    return x


def fft_r2c(x: Tensor, dim: Sequence[int], normalization: int, onesided: bool) -> Any:
    """``aten._fft_r2c.default``; one-sided: the last dimension has ``size // 2 + 1`` elements."""
    dims = [d % x.dim() for d in dim]
    if not dims or (_is_direct(x, dims) and dims[-1] == x.dim() - 1):
        return NotImplemented
    first, *others = _groups(dims)
    moved = torch.ops.aten._fft_r2c(_last(x, first), _places(x, first), normalization, onesided)
    found = _back(moved, first)
    for group in others:
        found = torch.ops.aten._fft_c2c(found, group, normalization, True)
    return found


def fft_c2r(x: Tensor, dim: Sequence[int], normalization: int, last_dim_size: int) -> Any:
    """``aten._fft_c2r.default``: inverse, of the one-sided half of a symmetric transform."""
    last = dim[-1] % x.dim()
    if not isinstance(last_dim_size, int) or x.size(last) < last_dim_size // 2 + 1:
        return NotImplemented
    if len(dim) > 1:
        x = torch.ops.aten._fft_c2c(x, list(dim[:-1]), normalization, False)
    if last_dim_size % 2 == 0:
        return _of_even_size(x, last, last_dim_size, normalization)
    whole = from_parts(*mirrored(parts(x), last, last_dim_size))
    return parts(torch.ops.aten._fft_c2c(whole, [last], normalization, False))[0]


def _of_even_size(x: Tensor, dim: int, size: int, normalization: int) -> Tensor:
    """By a transform of half the size, whose real parts are the even elements of the result.

    Its imaginary parts are the odd ones. With ``h = size / 2`` and ``w`` the root of one of
    ``size``, its element k is ``x[k] + conj(x[h - k]) + i w^k (x[k] - conj(x[h - k]))``.
    """
    half = size // 2
    real, imaginary = (one.movedim(dim, -1)[..., : half + 1] for one in parts(x))
    order = torch.arange(half, device=x.device)
    # The imaginary parts of the elements that are their own mirrors do not count.
    a, b = real[..., :half], torch.where(order == 0, 0, imaginary[..., :half])
    c, d = real.flip(-1)[..., :half], torch.where(order == 0, 0, -imaginary.flip(-1)[..., :half])
    angle = order.to(real.dtype) * number(2 * math.pi / size, real)
    cosine, sine = angle.cos(), angle.sin()
    factor = number(scale([size], normalization), real)
    halves = from_parts(
        (a + c - cosine * (b - d) - sine * (a - c)) * factor,
        (b + d + cosine * (a - c) - sine * (b - d)) * factor,
    )
    found = torch.ops.aten._fft_c2c(halves, [x.dim() - 1], _NONE, False)
    return torch.view_as_real(found).flatten(-2).movedim(-1, dim)


def _is_direct(x: Tensor, dims: list[int]) -> bool:
    count = len(dims)
    return (
        count <= _MOST_DIMS
        and x.is_contiguous()
        and sorted(dims) == list(range(x.dim() - count, x.dim()))
    )


def _groups(dims: list[int]) -> list[list[int]]:
    """The dimensions in groups, those that come last first."""
    ends = range(len(dims), 0, -_MOST_DIMS)
    return [dims[max(0, end - _MOST_DIMS) : end] for end in ends]


def _order(ndim: int, dims: list[int]) -> list[int]:
    return [d for d in range(ndim) if d not in dims] + dims


def _places(x: Tensor, dims: list[int]) -> list[int]:
    return list(range(x.dim() - len(dims), x.dim()))


def _last(x: Tensor, dims: list[int]) -> Tensor:
    """Row-major, with these dimensions last."""
    order = _order(x.dim(), dims)
    if not x.is_complex():
        return x.permute(order).contiguous()
    return view_as_complex(torch.view_as_real(x).permute([*order, x.dim()]).contiguous())


def _back(x: Tensor, dims: list[int]) -> Tensor:
    order = _order(x.dim(), dims)
    inverse = [order.index(d) for d in range(x.dim())]
    return view_as_complex(torch.view_as_real(x).permute([*inverse, x.dim()]).contiguous())


def composites() -> dict[OpOverload, Callable[..., Any]]:
    """``torch.fft``'s ops, each with what PyTorch makes of it.

    Inductor would take them as they are, and apart, behind our back.
    """
    names = [name for name in dir(torch.ops.aten) if name.startswith("fft_")]
    ops = [getattr(torch.ops.aten, name).default for name in names]
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    return {op: functools.partial(op._op_dk, key) for op in ops if op._can_decompose()}
