"""Average pooling with windows that are too large for Inductor's own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from aoti_plugins.lowering.decompositions.windows import (
    INDUCTOR_WINDOW,
    Windows,
    accumulation_dtype,
    along,
    gather,
)


def _avg_pool(
    ndim: int,
    x: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    given = (kernel_size, stride or kernel_size, padding)
    kernel, stride, padding = (
        list(values) * ndim if len(values) == 1 else list(values) for values in given
    )
    is_generated = math.prod(kernel) <= INDUCTOR_WINDOW or kernel == stride
    if is_generated or not x.is_floating_point():
        return NotImplemented
    dtype = accumulation_dtype(x.dtype)
    axes = list(zip(x.shape[x.dim() - len(kernel) :], kernel, stride, padding, strict=True))
    windows = [_windows(*axis, ceil_mode, x.device) for axis in axes]
    elements, inside = gather(x, windows)
    total = torch.where(inside, elements.to(dtype), 0).sum(tuple(range(-len(kernel), 0)))
    if divisor_override is not None:
        return (total / divisor_override).to(x.dtype)
    for axis, (one, pad) in enumerate(zip(windows, padding, strict=True)):
        if count_include_pad:
            count = one.end.clamp(max=one.size + pad) - one.start
        else:
            count = one.end.clamp(max=one.size) - one.start.clamp(min=0)
        total = total / along(count.to(dtype), axis, len(windows))
    return total.to(x.dtype)


avg_pool2d = partial(_avg_pool, 2)
"""``aten.avg_pool2d``."""

avg_pool3d = partial(_avg_pool, 3)
"""``aten.avg_pool3d``."""


def _windows(
    size: int, width: int, stride: int, padding: int, ceil_mode: bool, device: torch.device
) -> Windows:
    start = torch.arange(_out_size(size, width, stride, padding, ceil_mode), device=device)
    start = start * stride - padding
    return Windows(size, start, start + width, width)


def _out_size(size: int, width: int, stride: int, padding: int, ceil_mode: bool) -> int:
    free = size + 2 * padding - width
    if not ceil_mode:
        return free // stride + 1
    # No window starts in the padding after the input.
    return torch.sym_min(-(-free // stride) + 1, -(-(size + padding) // stride))
