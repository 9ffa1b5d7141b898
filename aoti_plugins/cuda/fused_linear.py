"""The operator ``aoti_plugins::fused_linear``, for which the CUDA runtime has kernels."""

from __future__ import annotations

import torch
from torch import Tensor

from aoti_plugins.cuda.gates import Gate, whole_product
from aoti_plugins.cuda.small_weights.layout import (
    FLOAT,
    FLOAT_E5M2,
    ROWS,
    unpack_codes,
    unpack_groups,
)
from aoti_plugins.lowering.runtime_ops import runtime_op
from aoti_plugins.lowering.small_weights import floats
from aoti_plugins.lowering.small_weights.packed import scaled


@runtime_op("aoti_plugins::fused_linear", device_types=("cpu", "cuda"))
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
        scale: ``[n / 8, groups, 8]``, the dtype of ``x``, float32 or float16, from
            ``layout.pack_groups``. Of floats it is float32 where a row has one, else uint8:
            exponents as float32 has them, of 8 bits, and the bits of E4M3, of 4.
        zero: likewise; none for ``NO_ZERO``. Of floats with groups, factors of rows, float32
            ``[n / 8, 1, 8]``, or none.
        bias: ``[n]``, the dtype of ``x``.
        norm: ``[k]``, likewise: rows of ``x`` are divided by the root of their mean square, and
            multiplied with it.
        residual: as the result, is added to it.
        bits: 4 or 8.
        group_size: weights of a row that have one scale: a power of two from 32 on, or ``k``; of
            floats ``layout.FLOAT_GROUPS``, or ``k`` of 8 bits.
        zero_kind: ``NO_ZERO``, ``ZERO_POINT`` or ``ADDED_ZERO`` of ``small_weights.weight``; or
            ``FLOAT`` or ``FLOAT_E5M2`` of ``layout``: x is bfloat16 then.
        epsilon: is added to the mean square.
        gate: a ``Gate``: the first half of the columns goes through it, times the second.

    Returns:
        ``[..., n]`` in the dtype of ``x``; ``[..., n / 2]`` with a gate.
    """
    codes = unpack_codes(weight, bits, x.size(-1)).unflatten(1, (-1, group_size))
    zeros = None if zero is None else unpack_groups(zero)
    if zero_kind in (FLOAT, FLOAT_E5M2):
        values = _floats(codes.int(), unpack_groups(scale), zeros, bits, zero_kind)
    else:
        values = scaled(codes.float(), unpack_groups(scale), zeros, bits, zero_kind).flatten(1)
    return whole_product(x, values, bias, norm, residual, epsilon, gate)


def _floats(codes: Tensor, scale: Tensor, factors: Tensor | None, bits: int, kind: int) -> Tensor:
    """What codes ``[n, groups, size]`` that are floats stand for, ``[n, k]`` of float32."""
    of_bytes = floats.float8_e5m2 if kind == FLOAT_E5M2 else floats.float8_e4m3fn
    numbers = floats.float4_e2m1(codes) if bits == 4 else of_bytes(codes)
    if scale.dtype == torch.uint8:
        scale = (floats.float8_e4m3fn if bits == 4 else floats.float8_e8m0fnu)(scale.int())
    found = (numbers * scale[..., None]).flatten(1)
    return found if factors is None else found * factors


@fused_linear.register_fake
def _(x, weight, *others):  # type: ignore[no-untyped-def]
    columns, gate = weight.size(0) * ROWS, others[-1]
    return x.new_empty((*x.shape[:-1], columns if gate == Gate.NONE else columns // 2))
