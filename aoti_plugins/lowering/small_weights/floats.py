"""Floats of 4 and 8 bits by their bits, for which devices need no such dtype.

All take int32 and return float32, exactly.
"""

from __future__ import annotations

import torch
from torch import Tensor

_NAN = float("nan")


def float4_e2m1(bits: Tensor) -> Tensor:
    """Floats of 4 bits, from 0 to 15: a sign, two bits of an exponent, one of a fraction."""
    exponent, fraction = bits >> 1 & 3, bits & 1
    halves = torch.where(exponent == 0, fraction, (fraction + 2) << exponent >> 1)
    return torch.where(bits >= 8, -halves, halves).float() * 0.5


def float8_e4m3fn(bits: Tensor) -> Tensor:
    """Floats of 8 bits: as float16 they are 256 times smaller."""
    word = (bits & 0x80) << 8 | (bits & 0x7F) << 7
    found = word.to(torch.int16).view(torch.float16).float() * 256
    return torch.where(bits & 0x7F == 0x7F, _NAN, found)


def float8_e5m2(bits: Tensor) -> Tensor:
    """Floats of 8 bits: the upper half of a float16."""
    return (bits << 8).to(torch.int16).view(torch.float16).float()


def float8_e8m0fnu(bits: Tensor) -> Tensor:
    """Powers of two: the exponent of a float32."""
    found = torch.where(bits == 0, 0x400000, bits << 23)
    return torch.where(bits == 255, 0x7FC00000, found).view(torch.float32)


BY_DTYPE = {
    torch.float8_e4m3fn: float8_e4m3fn,
    torch.float8_e5m2: float8_e5m2,
    torch.float8_e8m0fnu: float8_e8m0fnu,
}
