"""Adaptive pooling.

Window ``i`` of ``out`` over ``size`` elements is
``[floor(i * size / out), ceil((i + 1) * size / out))``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from aoti_plugins.lowering.decompositions.windows import (
    INDUCTOR_WINDOW,
    Windows,
    accumulation_dtype,
    along,
    gather,
    quotients,
    spread,
)


def adaptive_avg_pool2d(x: Tensor, output_size: Sequence[int]) -> Any:
    """``aten._adaptive_avg_pool2d``, where the windows are too large for Inductor's own."""
    return NotImplemented if _is_generated(x, output_size) else adaptive_avg_pool3d(x, output_size)


def adaptive_max_pool2d(x: Tensor, output_size: Sequence[int]) -> Any:
    """``aten.adaptive_max_pool2d``, where the windows are too large for Inductor's own."""
    return NotImplemented if _is_generated(x, output_size) else adaptive_max_pool3d(x, output_size)


def adaptive_avg_pool3d(x: Tensor, output_size: Sequence[int]) -> Any:
    """``aten._adaptive_avg_pool3d``, or of as many dimensions as there are sizes."""
    if not x.is_floating_point() or _is_empty(x, output_size):
        return NotImplemented
    dtype = accumulation_dtype(x.dtype)
    windows = _windows(x, output_size)
    count = len(windows)
    elements, inside = gather(x, windows)
    total = torch.where(inside, elements.to(dtype), 0).sum(tuple(range(-count, 0)))
    for axis, one in enumerate(windows):
        total = total / along((one.end - one.start).to(dtype), axis, count)
    return total.to(x.dtype)


def adaptive_max_pool3d(x: Tensor, output_size: Sequence[int]) -> Any:
    """``aten.adaptive_max_pool3d``, or of as many dimensions as there are sizes."""
    if not x.is_floating_point() or _is_empty(x, output_size):
        return NotImplemented
    windows = _windows(x, output_size)
    elements, inside = gather(x, windows)
    elements = torch.where(inside, elements, -math.inf).flatten(-len(windows))
    places = _places(windows).expand(elements.shape)
    return elements.amax(-1), places.gather(-1, _chosen(elements)[..., None]).squeeze(-1)


def _chosen(elements: Tensor) -> Tensor:
    """Which element of each window PyTorch points at: the last NaN, or the first maximum."""
    order = torch.arange(elements.size(-1), device=elements.device)
    last_nan = torch.where(elements.isnan(), order, -1).amax(-1)
    return torch.where(last_nan < 0, elements.argmax(-1), last_nan)


def _places(windows: Sequence[Windows]) -> Tensor:
    """``[*outs, elements]``: index in the flattened input of each element of the windows."""
    count = len(windows)
    places = torch.zeros((), dtype=torch.int64, device=windows[0].start.device)
    for axis, one in enumerate(windows):
        places = places * one.size + spread(one.places()[0], axis, count)
    return places.flatten(count)


def _windows(x: Tensor, output_size: Sequence[int]) -> list[Windows]:
    sizes = x.shape[x.dim() - len(output_size) :]
    return [
        _windows_along(size, out, x.device) for size, out in zip(sizes, output_size, strict=True)
    ]


def _windows_along(size: int, out: int, device: torch.device) -> Windows:
    index = torch.arange(out, device=device)
    start = quotients(index * size, out, size)
    end = quotients((index + 1) * size + out - 1, out, size)
    return Windows(size, start, end, _width(size, out))


def _width(size: int, out: int) -> int:
    """Elements of the widest window; of symbolic sizes a bound."""
    if isinstance(size, int) and isinstance(out, int):
        return max(-((-(i + 1) * size) // out) - i * size // out for i in range(out))
    return (size + 2 * out - 2) // out


def _is_generated(x: Tensor, output_size: Sequence[int]) -> bool:
    sizes = x.shape[x.dim() - len(output_size) :]
    pairs = list(zip(sizes, output_size, strict=True))
    if not all(isinstance(value, int) for pair in pairs for value in pair):
        return False
    if any(out == 0 for out in output_size) or all(size % out == 0 for size, out in pairs):
        return True
    return math.prod((size + 2 * out - 2) // out for size, out in pairs) <= INDUCTOR_WINDOW


def _is_empty(x: Tensor, output_size: Sequence[int]) -> bool:
    return any(isinstance(size, int) and size == 0 for size in (*x.shape, *output_size))
