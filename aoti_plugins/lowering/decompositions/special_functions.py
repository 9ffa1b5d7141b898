"""Special functions that Triton does not have."""

from __future__ import annotations

import math

import torch
from torch import Tensor

# From here on a few terms of the series at infinity are exact in float64.
_FAR = 10

# B(2k) / 2k for k from 1 to 7: Abramowitz and Stegun, 6.3.18.
_TERMS = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)


def digamma(x: Tensor) -> Tensor:
    """``aten.digamma``: by recurrence from far out, and by reflection below 0."""
    dtype = x.dtype if x.dtype.is_floating_point else torch.get_default_dtype()
    x = x.to(torch.promote_types(dtype, torch.float32))
    is_negative = x < 0
    found = _of_positive(torch.where(is_negative, 1 - x, x))
    # Of what lies about the nearest integer, since the tangent of a large number is inexact.
    reflected = found - math.pi / torch.tan(math.pi * (x - x.round()))
    found = torch.where(is_negative, reflected, found)
    found = torch.where(is_negative & (x == x.trunc()), math.nan, found)
    return torch.where(x == 0, torch.copysign(torch.full_like(x, math.inf), -x), found).to(dtype)


def _of_positive(x: Tensor) -> Tensor:
    is_near = x < _FAR
    far = torch.where(is_near, x + _FAR, x)
    square = 1 / (far * far)
    series = torch.zeros_like(x)
    for term in reversed(_TERMS):
        series = (series + term) * square
    found = torch.log(far) - 0.5 / far - series
    steps = sum((1 / (x + step) for step in range(_FAR)), torch.zeros_like(x))
    return torch.where(is_near, found - steps, found)
