"""Windows of pooling: for each place of the output, the places of the input that it is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

INDUCTOR_WINDOW = 25
"""Inductor generates pooling with windows of up to this many elements, whatever their strides."""

_EXACT = 2**21


@dataclass(frozen=True)
class Windows:
    """Windows along one axis of ``size`` elements.

    Attributes:
        size: elements of the input along the axis.
        start: ``[out]``, int64, where each window starts; negative in a padding.
        end: ``[out]``, int64, where it ends.
        width: elements of the widest window.
    """

    size: int
    start: Tensor
    end: Tensor
    width: int

    def places(self) -> tuple[Tensor, Tensor]:
        """``[out, width]`` twice: places in the input, and whether they are in window and input."""
        places = self.start[:, None] + torch.arange(self.width, device=self.start.device)
        inside = (places >= 0) & (places < self.end[:, None].clamp(max=self.size))
        return places.clamp(0, self.size - 1), inside


def gather(x: Tensor, windows: Sequence[Windows]) -> tuple[Tensor, Tensor]:
    """The windows over the last axes of a tensor.

    Args:
        x: ``[..., *sizes]``.
        windows: one for each of ``sizes``.

    Returns:
        ``[..., *outs, *widths]``, the elements, and ``[*outs, *widths]``, bool, which of them
        are inside. The others hold anything.
    """
    count = len(windows)
    indices: list[Tensor | None] = [None] * (x.dim() - count)
    inside = None
    for axis, one in enumerate(windows):
        places, valid = one.places()
        indices.append(spread(places, axis, count))
        valid = spread(valid, axis, count)
        inside = valid if inside is None else inside & valid
    assert inside is not None
    return torch.ops.aten._unsafe_index(x, indices), inside


def along(value: Tensor, axis: int, count: int) -> Tensor:
    """``[n]`` as a tensor that broadcasts along one of ``count`` axes."""
    return value.view([-1 if other == axis else 1 for other in range(count)])


def spread(value: Tensor, axis: int, count: int) -> Tensor:
    """``[..., out, width]``, the last two axes among ``count`` axes of outputs, then of widths."""
    shape = [1] * (2 * count)
    shape[axis], shape[count + axis] = value.shape[-2:]
    return value.view(*value.shape[:-2], *shape)


def quotients(dividends: Tensor, divisor: int, bound: int) -> Tensor:
    """Divide integers, rounding down; quotients are at most ``bound``, and 0 of negative ones.

    ExecuTorch turns a division of integers in an edge program into one of floats, which is right
    to the half below ``_EXACT``. Beyond, or if that is not known, multiples are counted.
    """
    if isinstance(divisor, int) and isinstance(bound, int) and (bound + 1) * divisor < _EXACT:
        return ((dividends.clamp(min=0).to(torch.float32) + 0.5) / divisor).floor().to(torch.int64)
    multiples = torch.arange(1, bound + 1, device=dividends.device) * divisor
    return (multiples <= dividends[..., None]).sum(-1)


def accumulation_dtype(dtype: torch.dtype) -> torch.dtype:
    """In which dtype to add values up."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
