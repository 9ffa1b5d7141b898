"""The operator ``aoti_plugins::small_weight_linear``, for which the CUDA runtime has kernels."""

from __future__ import annotations

import torch
from torch import Tensor

from aoti_plugins.cuda.small_weights.layout import ROWS, unpack_codes, unpack_groups
from aoti_plugins.lowering.small_weights.weight import MIDDLE, ZERO_POINT


@torch.library.custom_op(
    "aoti_plugins::small_weight_linear", mutates_args=(), device_types=("cpu", "cuda")
)
def small_weight_linear(
    x: Tensor,
    weight: Tensor,
    scale: Tensor,
    zero: Tensor | None,
    bias: Tensor | None,
    bits: int,
    group_size: int,
    zero_kind: int,
) -> Tensor:
    """Product with the transpose of a weight of 4 or 8 bits.

    Here it is computed by PyTorch, in float32; programs call the runtime.

    Args:
        x: ``[..., k]``, float16 or bfloat16.
        weight: ``[n / 8, k / depth, 512]`` of uint8, from ``layout.pack_codes``.
        scale: ``[n / 8, groups, 8]``, the dtype of ``x`` or float32, from ``layout.pack_groups``.
        zero: likewise; none for ``NO_ZERO``.
        bias: ``[n]``, the dtype of ``x``.
        bits: 4 or 8.
        group_size: weights of a row that have one scale: a power of two from 32 on, or ``k``.
        zero_kind: ``NO_ZERO``, ``ZERO_POINT`` or ``ADDED_ZERO`` of ``small_weights.weight``.

    Returns:
        ``[..., n]`` in the dtype of ``x``.
    """
    codes = unpack_codes(weight, bits, x.size(-1)).float().unflatten(1, (-1, group_size))
    scales = unpack_groups(scale).float()[..., None]
    zeros = None if zero is None else unpack_groups(zero).float()[..., None]
    if zeros is not None and zero_kind == ZERO_POINT:
        values = (codes - zeros) * scales
    else:
        values = (codes - MIDDLE[bits]) * scales + (0 if zeros is None else zeros)
    found = torch.nn.functional.linear(x.float(), values.flatten(1))
    return (found if bias is None else found + bias.float()).to(x.dtype)


@small_weight_linear.register_fake
def _(x, weight, scale, zero, bias, bits, group_size, zero_kind):  # type: ignore[no-untyped-def]
    del scale, zero, bias, bits, group_size, zero_kind
    return x.new_empty((*x.shape[:-1], weight.size(0) * ROWS))
