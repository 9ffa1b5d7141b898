"""The operator ``aoti_plugins::fused_linear``, for which the CUDA runtime has kernels."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import linear

from aoti_plugins.cuda.gates import Gate, activated
from aoti_plugins.cuda.small_weights.layout import ROWS, unpack_codes, unpack_groups
from aoti_plugins.lowering.small_weights.weight import MIDDLE, ZERO_POINT


@torch.library.custom_op(
    "aoti_plugins::fused_linear",
    mutates_args=(),
    device_types=("cpu", "cuda"),
    # Else Inductor copies what is not laid out as it was for the example.
    tags=(torch.Tag.flexible_layout,),
)
def fused_linear(
    x: Tensor,
    weight: Tensor,
    scale: Tensor,
    zero: Tensor | None,
    bias: Tensor | None,
    norm: Tensor | None,
    residual: Tensor | None,
    bits: int,
    group_size: int,
    zero_kind: int,
    epsilon: float,
    gate: int,
) -> Tensor:
    """Product with the transpose of a weight, and what stands around it in language models.

    Here it is computed by PyTorch, in float32; programs call the runtime.

    Args:
        x: ``[..., k]``, float16 or bfloat16.
        weight: ``[n / 8, k / depth, 512]`` of uint8, from ``layout.pack_codes``.
        scale: ``[n / 8, groups, 8]``, the dtype of ``x`` or float32, from ``layout.pack_groups``.
        zero: likewise; none for ``NO_ZERO``.
        bias: ``[n]``, the dtype of ``x``.
        norm: ``[k]``, likewise: rows of ``x`` are divided by the root of their mean square, and
            multiplied with it.
        residual: as the result, is added to it.
        bits: 4 or 8.
        group_size: weights of a row that have one scale: a power of two from 32 on, or ``k``.
        zero_kind: ``NO_ZERO``, ``ZERO_POINT`` or ``ADDED_ZERO`` of ``small_weights.weight``.
        epsilon: is added to the mean square.
        gate: a ``Gate``: the first half of the columns goes through it, times the second.

    Returns:
        ``[..., n]`` in the dtype of ``x``; ``[..., n / 2]`` with a gate.
    """
    rows = x.float()
    if norm is not None:
        rows = rows * torch.rsqrt(rows.square().mean(-1, keepdim=True) + epsilon) * norm.float()
    values = _values(weight, scale, zero, bits, group_size, zero_kind, x.size(-1))
    found = linear(rows, values, None if bias is None else bias.float())
    if gate != Gate.NONE:
        first, second = found.chunk(2, -1)
        found = activated(first, Gate(gate)) * second
    return (found if residual is None else found + residual.float()).to(x.dtype)


def _values(
    weight: Tensor,
    scale: Tensor,
    zero: Tensor | None,
    bits: int,
    group_size: int,
    zero_kind: int,
    k: int,
) -> Tensor:
    codes = unpack_codes(weight, bits, k).float().unflatten(1, (-1, group_size))
    scales = unpack_groups(scale).float()[..., None]
    zeros = None if zero is None else unpack_groups(zero).float()[..., None]
    if zeros is not None and zero_kind == ZERO_POINT:
        return ((codes - zeros) * scales).flatten(1)
    return ((codes - MIDDLE[bits]) * scales + (0 if zeros is None else zeros)).flatten(1)


@fused_linear.register_fake
def _(  # type: ignore[no-untyped-def]
    x, weight, scale, zero, bias, norm, residual, bits, group_size, zero_kind, epsilon, gate
):
    del scale, zero, bias, norm, residual, bits, group_size, zero_kind, epsilon
    columns = weight.size(0) * ROWS
    return x.new_empty((*x.shape[:-1], columns if gate == Gate.NONE else columns // 2))
