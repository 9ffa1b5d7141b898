"""The operator ``small_linear``, for which the runtime has kernels on the CPU and on Apple GPUs."""

from __future__ import annotations

import torch
from torch import Tensor

from aoti_plugins.lowering.small_weights.packed import values


@torch.library.custom_op("aoti_plugins::small_linear", mutates_args=(), device_types="cpu")
def small_linear(
    x: Tensor,
    row_scale: Tensor | None,
    row_zero: Tensor | None,
    codes: Tensor,
    scale: Tensor,
    zero: Tensor | None,
    bias: Tensor | None,
    bits: int,
    zero_kind: int,
) -> Tensor:
    """A product with the transpose of a weight ``[n, k]`` of 4 or 8 bits.

    Here it is computed by PyTorch; programs call the runtime. Apple GPUs take floats as x.

    Args:
        x: ``[..., k]``: float32, float16 or bfloat16; or int8, which stands for
            ``(x - row_zero) * row_scale``.
        row_scale: of int8: ``[...]``, float32, one for each row.
        row_zero: likewise int8; none for 0.
        codes: of the weight, from ``small_weights.packed.pack``.
        scale: ``[n, groups]``, floats.
        zero: likewise; none for ``NO_ZERO``.
        bias: ``[n]``, floats.
        bits: 4 or 8.
        zero_kind: ``NO_ZERO``, ``ZERO_POINT`` or ``ADDED_ZERO`` of ``small_weights.weight``.

    Returns:
        ``[..., n]``, the dtype of x, or float32 for int8.
    """
    weight = values(codes, scale, zero, bits, zero_kind, torch.float32)
    rows = x.float()
    if row_scale is not None:
        if row_zero is not None:
            rows = rows - row_zero.reshape(*x.shape[:-1], 1)
        rows = rows * row_scale.reshape(*x.shape[:-1], 1)
    found = torch.nn.functional.linear(rows, weight, None if bias is None else bias.float())
    return found.to(_dtype_of(x))


@small_linear.register_fake
def _(x, row_scale, row_zero, codes, *others):  # type: ignore[no-untyped-def]
    del row_scale, row_zero, others
    return x.new_empty((*x.shape[:-1], codes.size(0)), dtype=_dtype_of(x))


def _dtype_of(x: Tensor) -> torch.dtype:
    return torch.float32 if x.dtype == torch.int8 else x.dtype
