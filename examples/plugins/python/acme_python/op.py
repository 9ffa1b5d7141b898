"""The op ``acme_python::snake``: ``x + sin(a x)^2 / a``, an activation for periodic signals."""

from __future__ import annotations

import torch


@torch.library.custom_op("acme_python::snake", mutates_args=())
def snake(x: torch.Tensor, a: float) -> torch.Tensor:
    """Apply the activation to a tensor of any floating-point dtype; ``a`` is not 0."""
    return plain_snake(x, a)


@snake.register_fake
def _(x: torch.Tensor, a: float) -> torch.Tensor:
    return torch.empty_like(x)


def plain_snake(x: torch.Tensor, a: float) -> torch.Tensor:
    """Compute the same in ops that Inductor knows: what the op is decomposed to."""
    return x + torch.sin(a * x).square() / a
