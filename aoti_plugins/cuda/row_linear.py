"""The operator ``aoti_plugins::row_linear``, for which the CUDA runtime has kernels."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import linear

from aoti_plugins.cuda.gates import Gate, activated


@torch.library.custom_op(
    "aoti_plugins::row_linear",
    mutates_args=(),
    device_types=("cpu", "cuda"),
    # Else Inductor copies what is not laid out as it was for the example.
    tags=(torch.Tag.flexible_layout,),
)
def row_linear(
    x: Tensor,
    weight: Tensor,
    gated_weight: Tensor | None,
    bias: Tensor | None,
    norm: Tensor | None,
    residual: Tensor | None,
    epsilon: float,
    gate: int,
) -> Tensor:
    """Product with the transpose of a weight of 16 bits, and what stands around it.

    Here it is computed by PyTorch, in float32; programs call the runtime.

    Args:
        x: ``[..., k]``, float16 or bfloat16; the kernels are for one row.
        weight: ``[n, k]``, the dtype of ``x``.
        gated_weight: the same: with a gate, the second half of the columns is of it. Without it,
            both halves are of ``weight``.
        bias: ``[n]``, the dtype of ``x``; none where there are two weights.
        norm: ``[k]``, likewise: rows of ``x`` are divided by the root of their mean square, and
            multiplied with it.
        residual: as the result, is added to it.
        epsilon: is added to the mean square.
        gate: a ``Gate``: the first half of the columns goes through it, times the second.

    Returns:
        ``[..., n]`` in the dtype of ``x``, for one weight without a gate and for two with one;
        ``[..., n / 2]`` for one with a gate.
    """
    rows = x.float()
    if norm is not None:
        rows = rows * torch.rsqrt(rows.square().mean(-1, keepdim=True) + epsilon) * norm.float()
    found = linear(rows, weight.float(), None if bias is None else bias.float())
    if gate != Gate.NONE:
        first, second = (
            found.chunk(2, -1)
            if gated_weight is None
            else (found, linear(rows, gated_weight.float()))
        )
        found = activated(first, Gate(gate)) * second
    return (found if residual is None else found + residual.float()).to(x.dtype)


@row_linear.register_fake
def _(  # type: ignore[no-untyped-def]
    x, weight, gated_weight, bias, norm, residual, epsilon, gate
):
    del bias, norm, residual, epsilon
    is_halved = gate != Gate.NONE and gated_weight is None
    return x.new_empty((*x.shape[:-1], weight.size(0) // 2 if is_halved else weight.size(0)))
