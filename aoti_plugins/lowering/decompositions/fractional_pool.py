"""Maxima of windows whose places are random."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from aoti_plugins.lowering.decompositions.windows import spread


def fractional_max_pool3d(
    x: Tensor, kernel_size: Sequence[int], output_size: Sequence[int], random_samples: Tensor
) -> Any:
    """``aten.fractional_max_pool3d``; Inductor gives the axes each other's samples.

    Args:
        x: ``[channels, depth, height, width]``, or a batch of these.
        kernel_size: of a window, by axis.
        output_size: windows, by axis.
        random_samples: ``[batch, channels, 3]``, from 0 to 1, of the dtype of ``x``.

    Returns:
        The largest element of each window, and its place in the volume of its channel.
    """
    samples = random_samples if x.dim() == 5 else random_samples[0]
    place: Any = 0
    for axis, size in enumerate(x.shape[-3:]):
        starts = _starts(samples[..., axis], size, output_size[axis], kernel_size[axis])
        taps = starts[..., None] + torch.arange(kernel_size[axis], device=x.device)
        place = place * size + spread(taps, axis, 3)
    flat = x.flatten(-3)
    windows = flat.gather(-1, place.flatten(-6)).view(place.shape).flatten(-3)
    largest, tap = windows.max(-1)
    return largest, place.flatten(-3).gather(-1, tap[..., None]).squeeze(-1)


def _starts(sample: Tensor, size: Any, count: int, width: int) -> Tensor:
    """``[..., count]``: where each window along an axis of ``size`` elements starts."""
    last = size - width
    if count == 1:
        return torch.full((*sample.shape, 1), last, dtype=torch.int64, device=sample.device)
    order = torch.arange(count, device=sample.device)
    step = last / (count - 1)
    shift = sample[..., None]
    starts = ((order + shift) * step).trunc() - (shift * step).trunc()
    # Clamped for the sake of samples that are none, with which Inductor measures.
    starts = starts.to(torch.int64).clamp(0, last)
    return torch.where(order == count - 1, last, starts)
