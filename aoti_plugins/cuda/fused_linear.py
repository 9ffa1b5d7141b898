"""The operator ``aoti_plugins::fused_linear``, for which the CUDA runtime has kernels."""

from __future__ import annotations

from torch import Tensor

from aoti_plugins.cuda.gates import Gate, whole_product
from aoti_plugins.cuda.small_weights.layout import ROWS, unpack_codes, unpack_groups
from aoti_plugins.lowering.runtime_ops import runtime_op
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
            ``layout.pack_groups``.
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
    codes = unpack_codes(weight, bits, x.size(-1)).float().unflatten(1, (-1, group_size))
    zeros = None if zero is None else unpack_groups(zero)
    values = scaled(codes, unpack_groups(scale), zeros, bits, zero_kind).flatten(1)
    return whole_product(x, values, bias, norm, residual, epsilon, gate)


@fused_linear.register_fake
def _(x, weight, *others):  # type: ignore[no-untyped-def]
    columns, gate = weight.size(0) * ROWS, others[-1]
    return x.new_empty((*x.shape[:-1], columns if gate == Gate.NONE else columns // 2))
