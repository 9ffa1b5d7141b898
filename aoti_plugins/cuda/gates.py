"""What the runtime's products do beside the product itself: norms, gates, residuals."""

from __future__ import annotations

from enum import IntEnum

import torch
from torch import Tensor
from torch.nn.functional import gelu, linear, silu


class Gate(IntEnum):
    """A gate; numbers as in native/src/cuda/kernels/one_row.h."""

    NONE = 0
    SILU = 1
    GELU = 2
    GELU_TANH = 3


def activated(x: Tensor, gate: Gate) -> Tensor:
    """What a gate makes of the first half of a product's columns."""
    if gate == Gate.SILU:
        return silu(x)
    return gelu(x, approximate="tanh" if gate == Gate.GELU_TANH else "none")


def gated(columns: Tensor, gate: Gate) -> Tensor:
    """What a gate makes of the columns of a product: half as many."""
    first, second = columns.chunk(2, -1)
    return activated(first, gate) * second


def normed(x: Tensor, factors: Tensor | None, epsilon: float) -> Tensor:
    """Rows divided by the root of their mean square, times factors, in float32; without, as is."""
    rows = x.float()
    if factors is None:
        return rows
    return rows * torch.rsqrt(rows.square().mean(-1, keepdim=True) + epsilon) * factors.float()


def whole_product(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    norm: Tensor | None,
    residual: Tensor | None,
    epsilon: float,
    gate: int,
) -> Tensor:
    """What ``fused_linear`` and ``row_linear`` compute of a weight ``[n, k]`` of float32."""
    found = linear(normed(x, norm, epsilon), weight, None if bias is None else bias.float())
    if gate != Gate.NONE:
        found = gated(found, Gate(gate))
    return (found if residual is None else found + residual.float()).to(x.dtype)
