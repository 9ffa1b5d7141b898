"""The op ``acme_native::scaled_cube``: ``scale * x^3``."""

from __future__ import annotations

import torch


@torch.library.custom_op("acme_native::scaled_cube", mutates_args=())
def scaled_cube(x: torch.Tensor, scale: float) -> torch.Tensor:
    """Cube a float32 tensor: what runs in eager, and what the kernels are compared with."""
    return scale * x**3


@scaled_cube.register_fake
def _(x: torch.Tensor, scale: float) -> torch.Tensor:
    return torch.empty_like(x)
