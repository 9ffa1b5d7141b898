"""Random numbers of every distribution from ``rand`` and ``randn``, which Inductor generates.

ExecuTorch lets no other random op into edge programs. The numbers follow the same distributions as
PyTorch's, but are others: a seed of PyTorch's does not give the same ones. ``rand`` has 24 random
bits, from 0 up to but without 1. Tensors come out contiguous or channels-last.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._prims_common import suggest_memory_format

_BITS = 24


def rand_like(x: Tensor, *, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    """``aten.rand_like.default``."""
    return _as(x, torch.rand(x.shape, dtype=dtype or x.dtype, device=x.device))


def randn_like(x: Tensor, *, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    """``aten.randn_like.default``."""
    return _as(x, torch.randn(x.shape, dtype=dtype or x.dtype, device=x.device))


def randint(high: int, size: Sequence[int], **options: Any) -> Tensor:
    """``aten.randint.default``."""
    return randint_low(0, high, size, **options)


def randint_low(
    low: int,
    high: int,
    size: Sequence[int],
    *,
    dtype: torch.dtype | None = torch.int64,
    device: torch.device | None = None,
    **_: Any,
) -> Tensor:
    """``aten.randint.low``: integers from ``low`` to ``high - 1``; fewer than 2**63 of them."""
    if not isinstance(low, int) or not isinstance(high, int) or high - low >= 2**63:
        return NotImplemented
    # Of so many more bits than the result has, the remainder prefers none noticeably.
    bits = _random_bits(48 if high - low <= 2**24 else 63, size, device)
    return (bits % (high - low) + low).to(dtype or torch.int64)


def randint_like(x: Tensor, high: int, *, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    """``aten.randint_like.default``."""
    return randint_like_low(x, 0, high, dtype=dtype)


def randint_like_low(
    x: Tensor, low: int, high: int, *, dtype: torch.dtype | None = None, **_: Any
) -> Tensor:
    """``aten.randint_like.low_dtype``."""
    found = randint_low(low, high, x.shape, dtype=dtype or x.dtype, device=x.device)
    return found if found is NotImplemented else _as(x, found)


def randperm(
    n: int,
    *,
    dtype: torch.dtype | None = torch.int64,
    device: torch.device | None = None,
    **_: Any,
) -> Tensor:
    """``aten.randperm.default``: in the order of random numbers of 48 bits, which hardly repeat."""
    return torch.sort(_random_bits(48, (n,), device))[1].to(dtype or torch.int64)


def bernoulli(x: Tensor, p: Tensor | float | None = None, **_: Any) -> Tensor:
    """``aten.bernoulli``: 1 as often as ``p``, or else the elements of ``x``, say, else 0.

    ``p`` broadcasts to the shape of ``x``.
    """
    return _as(x, (_rand(x) < (x if p is None else p)).to(x.dtype))


def uniform(x: Tensor, low: float = 0.0, high: float = 1.0, **_: Any) -> Tensor:
    """``aten.uniform.default``."""
    return _as(x, (low + (high - low) * _rand(x)).to(x.dtype))


def normal_functional(x: Tensor, mean: float = 0.0, std: float = 1.0, **_: Any) -> Tensor:
    """``aten.normal_functional.default``: of the shape of ``x``."""
    return _as(x, mean + std * torch.randn(x.shape, dtype=x.dtype, device=x.device))


def normal(mean: Tensor | float, std: Tensor | float = 1.0, **_: Any) -> Tensor:
    """``aten.normal`` of one or two tensors, which broadcast."""
    tensors = [one for one in (mean, std) if isinstance(one, Tensor)]
    shape = torch.broadcast_shapes(*(one.shape for one in tensors))
    dtype, device = tensors[0].dtype, tensors[0].device
    return (mean + std * torch.randn(shape, dtype=dtype, device=device)).to(dtype)


def normal_of_size(
    mean: float,
    std: float,
    size: Sequence[int],
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
    **_: Any,
) -> Tensor:
    """``aten.normal.float_float``."""
    return mean + std * torch.randn(size, dtype=dtype, device=device)


def log_normal(x: Tensor, mean: float = 1.0, std: float = 2.0, **_: Any) -> Tensor:
    """``aten.log_normal.default``."""
    return normal_functional(x, mean, std).exp()


def exponential(x: Tensor, rate: float = 1.0, **_: Any) -> Tensor:
    """``aten.exponential.default``."""
    return _as(x, (_exponential(_rand(x)) / rate).to(x.dtype))


def cauchy(x: Tensor, median: float = 0.0, sigma: float = 1.0, **_: Any) -> Tensor:
    """``aten.cauchy.default``."""
    return _as(x, (median + sigma * torch.tan(math.pi * (_rand(x) - 0.5))).to(x.dtype))


def geometric(x: Tensor, p: float, **_: Any) -> Tensor:
    """``aten.geometric.default``: how many trials there are up to the first success."""
    if p == 1:
        return torch.ones_like(x)
    trials = _exponential(_rand(x)) / -math.log1p(-p)
    return _as(x, trials.ceil().clamp_min(1).to(x.dtype))


def multinomial(weights: Tensor, num_samples: int, replacement: bool = False, **_: Any) -> Tensor:
    """``aten.multinomial.default``: an exponential race, as in PyTorch's own kernel.

    Args:
        weights: ``[k]`` or ``[n, k]``, floating-point, not negative. Unlike PyTorch's kernel this
            checks no values.
        num_samples: winners per row.
        replacement: whether one may win again: a race for each.

    Returns:
        ``[num_samples]`` or ``[n, num_samples]``, int64, indices into ``k``.
    """
    weights = weights.float() if weights.itemsize < 4 else weights
    if replacement:
        shape = (*weights.shape[:-1], num_samples, weights.shape[-1])
        times = _exponential(_rand(weights.new_empty(shape)))
        return (weights.unsqueeze(-2) / times).argmax(-1)
    speeds = weights / _exponential(_rand(weights))
    if num_samples == 1:
        return speeds.argmax(-1, keepdim=True)
    return torch.topk(speeds, num_samples, -1)[1]


def rrelu(
    x: Tensor, lower: float = 0.125, upper: float = 1 / 3, training: bool = False, *_: Any
) -> Tensor:
    """``aten.rrelu.default``: a random slope for each negative element, in training."""
    slopes = uniform(x, lower, upper) if training else (lower + upper) / 2
    return torch.where(x > 0, x, x * slopes)


def _rand(x: Tensor) -> Tensor:
    """Numbers in the shape of ``x``, in float64 if it is, else in float32."""
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    return torch.rand(x.shape, dtype=dtype, device=x.device)


def _exponential(numbers: Tensor) -> Tensor:
    """Exponentially distributed numbers above 0 from those of ``rand``."""
    return -torch.log1p(-numbers.clamp_min(2.0 ** -(_BITS + 1)))


def _random_bits(count: int, size: Sequence[int], device: torch.device | None) -> Tensor:
    """Numbers of ``count`` random bits, at most 63, as int64."""
    found = torch.zeros(size, dtype=torch.int64, device=device)
    while count > 0:
        scale = 2 ** min(count, _BITS)
        numbers = torch.rand(size, dtype=torch.float32, device=device)
        found = found * scale + (numbers * scale).to(torch.int64)
        count -= _BITS
    return found


def _as(x: Tensor, values: Tensor) -> Tensor:
    """Values channels-last where ``x`` is."""
    return values.contiguous(memory_format=suggest_memory_format(x))
