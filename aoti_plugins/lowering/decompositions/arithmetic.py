"""Sums, powers and integers of eight bits in the forms that Inductor does not generate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from aoti_plugins.lowering.decompositions import complex_numbers

EIGHT_BITS = (torch.int8, torch.uint8)


def is_integer(dtype: torch.dtype) -> bool:
    """Whether numbers of a dtype are whole; truth values are none."""
    return not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)


def add_number(x: Tensor, y: Any, alpha: Any = 1) -> Any:
    """``aten.add.Scalar``."""
    return torch.add(x, y * alpha)


def power(base: Tensor, exponent: Tensor) -> Any:
    """``aten.pow.Tensor_Tensor`` of integers: by squares, which wrap around as products do.

    To a negative power 1 and -1 are what they are to the positive one, all others are 0.
    """
    dtype = torch.result_type(base, exponent)
    if not is_integer(dtype):
        return NotImplemented
    base, exponent = torch.broadcast_tensors(base.to(dtype), exponent.to(dtype))
    is_signed = torch.iinfo(dtype).min < 0
    size, square = exponent.abs() if is_signed else exponent, base
    found = torch.ones_like(base)
    for bit in range(torch.iinfo(dtype).bits - is_signed):
        # Each is used once, since Inductor follows every use of what it has not stored.
        found = found * torch.where((size >> bit) & 1 == 1, square, 1)
        square = torch.square(square)
    if not is_signed:
        return found
    is_zero = (exponent < 0) & (base != 1) & (base != -1)
    return torch.where(is_zero, 0, found)


def any_of(x: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    """``aten.any``, all forms, of integers: of uint8 it is uint8, which Inductor makes bool of.

    Places (``arange``) do not compile as truth values.
    """
    return _truth_of(torch.any, x, dim, keepdim)


def all_of(x: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    """``aten.all``, all forms, of integers; see ``any_of``."""
    return _truth_of(torch.all, x, dim, keepdim)


def _truth_of(reduce: Any, x: Tensor, dim: Any, keepdim: bool) -> Any:
    if not is_integer(x.dtype):
        return NotImplemented
    found = reduce(x != 0) if dim is None else reduce(x != 0, dim, keepdim)
    if dim is None and keepdim:
        found = found.reshape([1] * x.dim())
    return found.to(x.dtype if x.dtype == torch.uint8 else torch.bool)


def cat(tensors: Sequence[Tensor], dim: int = 0) -> Any:
    """``aten.cat.default`` of integers of eight bits, and of complex numbers."""
    dtype = tensors[0].dtype
    if dtype.is_complex:
        return complex_numbers.MOVES[torch.ops.aten.cat.default](tensors, dim)
    if dtype not in EIGHT_BITS or any(tensor.dtype != dtype for tensor in tensors):
        return NotImplemented
    return torch.cat([tensor.to(torch.int32) for tensor in tensors], dim).to(dtype)
