"""Greatest common divisors, by Euclid's algorithm with as many steps as a dtype can need."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

# The slowest pairs are successive Fibonacci numbers below the largest of the dtype.
_STEPS = {torch.uint8: 12, torch.int8: 10, torch.int16: 22, torch.int32: 45, torch.int64: 91}


def gcd(x: Tensor, y: Tensor) -> Any:
    """``aten.gcd.default``."""
    if x.dtype != y.dtype or x.dtype not in _STEPS:
        return NotImplemented
    a, b = (x, y) if x.dtype == torch.uint8 else (x.abs(), y.abs())
    a, b = torch.broadcast_tensors(a, b)
    for _ in range(_STEPS[x.dtype] + 1):
        is_done = b == 0
        rest = torch.where(is_done, 0, a % torch.where(is_done, 1, b))
        a, b = _stored(torch.where(is_done, a, b)), _stored(rest)
    return a


def _stored(x: Tensor) -> Tensor:
    """The same in a buffer: Inductor would follow every use of it back to the first step."""
    return torch.as_strided(x, x.size(), x.stride())
