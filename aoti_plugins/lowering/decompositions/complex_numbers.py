"""Complex numbers as pairs of real ones, which is what Inductor computes with."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_COMPLEX = {torch.float32: torch.complex64, torch.float64: torch.complex128}


def view_as_complex(pairs: Tensor) -> Any:
    """``aten.view_as_complex.default``: ``[..., n, 2]`` to ``[..., n]``."""
    if pairs.dtype not in _COMPLEX or pairs.dim() < 2 or pairs.numel() == 0:
        return NotImplemented
    # So that the last step gives the shape: Inductor knows no other views of complex numbers.
    flat = pairs.reshape(*pairs.shape[:-2], pairs.size(-2) * 2).contiguous()
    return torch.ops.aten.view.dtype(flat, _COMPLEX[pairs.dtype])


def from_parts(real: Tensor, imaginary: Tensor) -> Tensor:
    """Complex numbers from tensors of one shape and dtype, float32 or float64."""
    return view_as_complex(torch.stack((real, imaginary), -1))


def parts(x: Tensor) -> tuple[Tensor, Tensor]:
    """Real and imaginary parts."""
    pairs = torch.view_as_real(x)
    return pairs[..., 0], pairs[..., 1]


def polar(length: Tensor, angle: Tensor) -> Any:
    """``aten.polar.default``."""
    if length.dtype not in _COMPLEX:
        return NotImplemented
    return from_parts(*torch.broadcast_tensors(length * angle.cos(), length * angle.sin()))


def angle(x: Tensor) -> Any:
    """``aten.angle.default`` of complex numbers."""
    if not x.is_complex():
        return NotImplemented
    real, imaginary = parts(x)
    return torch.atan2(imaginary, real)


def absolute(x: Tensor) -> Any:
    """``aten.abs.default`` of complex numbers."""
    if not x.is_complex():
        return NotImplemented
    return torch.hypot(*parts(x))


def multiply(x: Tensor, y: Any) -> Any:
    """``aten.mul.Tensor`` of two complex tensors of one dtype."""
    if not isinstance(y, Tensor) or not x.is_complex() or y.dtype != x.dtype:
        return NotImplemented
    (a, b), (c, d) = parts(x), parts(y)
    return from_parts(a * c - b * d, a * d + b * c)
