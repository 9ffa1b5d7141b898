"""Windows for short-time transforms, which PyTorch 2.11 leaves whole."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor


def hann_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
    **_: Any,
) -> Tensor:
    """``aten.hann_window``, both forms: ``[window_length]``, from 0 to 1 and back."""
    dtype = dtype or torch.get_default_dtype()
    period = max(window_length if periodic else window_length - 1, 1)
    place = torch.arange(window_length, dtype=dtype, device=device)
    if window_length == 1:
        return place + 1
    return 0.5 - 0.5 * torch.cos(place * (2 * math.pi / period))
