"""The operator ``aoti_plugins::expert_linear``, for which the CUDA runtime has kernels."""

from __future__ import annotations

import torch
from torch import Tensor

from aoti_plugins.cuda.gates import Gate, gated, normed
from aoti_plugins.cuda.small_weights.layout import ROWS, unpack_codes, unpack_groups
from aoti_plugins.lowering.runtime_ops import runtime_op
from aoti_plugins.lowering.small_weights.packed import scaled

MOST_EXPERTS = 4096
"""As in native/src/cuda/kernels/experts.h."""

STREAMED_GROUPS = (32, 128)
"""Those of 4 bits that have a kernel for one row, as in native/src/cuda/ops/streamed_row.cpp."""


@runtime_op("aoti_plugins::expert_linear", device_types=("cpu", "cuda"))
def expert_linear(
    x: Tensor,
    experts: Tensor,
    weight: Tensor,
    scale: Tensor,
    zero: Tensor | None,
    norm: Tensor | None,
    factors: Tensor | None,
    residual: Tensor | None,
    count: int,
    bits: int,
    group_size: int,
    zero_kind: int,
    epsilon: float,
    gate: int,
    is_second: bool,
) -> Tensor:
    """Rows times the transposes of matrices of experts, and what stands behind.

    Here it is computed by PyTorch, in float32; programs call the runtime, which reads the matrices
    of chosen experts alone.

    Args:
        x: ``[m, k]``, float16 or bfloat16.
        experts: ``[rows]``, int64: the expert of each row of the result, below 0 from the end.
            ``rows`` is a multiple of ``m``: each row of ``x`` is for ``rows / m`` of them.
        weight: ``[count * n / 8, k / depth, 512]`` of uint8, from ``layout.pack_codes``: the
            matrices ``[n, k]`` of all experts, one below the other.
        scale: ``[count * n / 8, groups, 8]``, the dtype of ``x`` or float32.
        zero: likewise; none for ``NO_ZERO``.
        norm: ``[k]``, the dtype of ``x``: rows of ``x`` are divided by the root of their mean
            square, and multiplied with it; without ``factors`` only.
        factors: ``[m / chosen, chosen]``, float32: each ``chosen`` results are added up, times
            these; ``rows`` is ``m`` then.
        residual: as the result, is added to it; with ``factors`` only.
        count: of all experts, ``MOST_EXPERTS`` at most.
        bits: 4 or 8.
        group_size: weights of a row that have one scale: a power of two from 32 on, or ``k``.
        zero_kind: ``NO_ZERO``, ``ZERO_POINT`` or ``ADDED_ZERO`` of ``small_weights.weight``.
        epsilon: is added to the mean square.
        gate: a ``Gate``: the first half of the columns goes through it, times the second; without
            ``factors`` only.
        is_second: ``x`` is made of the result of such a product with the same ``experts``: they are
            known before that has ended, so that matrices may be fetched.

    Returns:
        ``[rows, n]`` in the dtype of ``x``; ``[rows, n / 2]`` with a gate, ``[m / chosen, n]`` with
        factors.
    """
    del is_second
    codes = unpack_codes(weight, bits, x.size(-1)).float().unflatten(1, (-1, group_size))
    zeros = None if zero is None else unpack_groups(zero)
    values = scaled(codes, unpack_groups(scale), zeros, bits, zero_kind).flatten(1)
    chosen = values.unflatten(0, (count, -1))[experts]
    rows = normed(x, norm, epsilon).repeat_interleave(experts.size(0) // x.size(0), 0)
    found = torch.einsum("rnk,rk->rn", chosen, rows)
    if gate != Gate.NONE:
        found = gated(found, Gate(gate))
    if factors is not None:
        found = (found.unflatten(0, factors.shape) * factors[..., None]).sum(1)
    return (found if residual is None else found + residual.float()).to(x.dtype)


@expert_linear.register_fake
def _(x, experts, weight, scale, zero, norm, factors, residual, count, *others):  # type: ignore[no-untyped-def]
    del scale, zero, norm, residual
    columns = weight.size(0) // count * ROWS
    if factors is not None:
        return x.new_empty((factors.size(0), columns))
    return x.new_empty((experts.size(0), columns if others[-2] == Gate.NONE else columns // 2))
