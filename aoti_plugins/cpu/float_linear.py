"""The operator ``float_linear``, for which the runtime has kernels on the CPU."""

from __future__ import annotations

import torch
from torch import Tensor

from aoti_plugins.lowering.small_weights.float_weights import product, values


@torch.library.custom_op("aoti_plugins::float_linear", mutates_args=(), device_types="cpu")
def float_linear(
    x: Tensor, codes: Tensor, scale: Tensor, bias: Tensor | None, whole: float, kind: str
) -> Tensor:
    """A product with the transpose of a weight ``[n, k]`` of floats of 8 or 4 bits.

    Here it is computed by PyTorch; programs call the runtime, which reads the floats as they are.

    Args:
        x: ``[..., k]``: float32, float16 or bfloat16.
        codes: as ``small_weights.float_weights.FloatWeight`` has them, as the others.
        scale: likewise.
        bias: ``[n]``, floats.
        whole: what all of the weight is multiplied by.
        kind: ``"e4m3"``, ``"e5m2"``, ``"mx_e4m3"``, ``"mx_e5m2"`` or ``"nvfp4"``.

    Returns:
        ``[..., n]``, the dtype of x.
    """
    return product(x, values(codes, scale, whole, kind), bias)


@float_linear.register_fake
def _(x, codes, scale, bias, whole, kind):  # type: ignore[no-untyped-def]
    del scale, bias, whole, kind
    return x.new_empty((*x.shape[:-1], codes.size(0)))
