"""The operator ``aoti_plugins::row_linear``, for which the CUDA runtime has kernels."""

from __future__ import annotations

import torch
from torch import Tensor

from aoti_plugins.cuda.gates import Gate, whole_product
from aoti_plugins.lowering.runtime_ops import runtime_op


@runtime_op("aoti_plugins::row_linear", device_types=("cpu", "cuda"))
def row_linear(
    x: Tensor,
    weight: Tensor,
    second: Tensor | None,
    third: Tensor | None,
    bias: Tensor | None,
    norm: Tensor | None,
    residual: Tensor | None,
    epsilon: float,
    gate: int,
) -> Tensor:
    """Product with the transposes of weights of 16 bits, and what stands around it.

    Here it is computed by PyTorch, in float32; programs call the runtime.

    Args:
        x: ``[..., k]``, float16 or bfloat16; the kernels are for one row.
        weight: ``[columns, k]``, the dtype of ``x``.
        second: the same, for the columns behind; ``n`` are those of all.
        third: the same.
        bias: ``[n]``, the dtype of ``x``.
        norm: ``[k]``, likewise: rows of ``x`` are divided by the root of their mean square, and
            multiplied with it.
        residual: as the result, is added to it.
        epsilon: is added to the mean square.
        gate: a ``Gate``: the first half of the columns goes through it, times the second.

    Returns:
        ``[..., n]`` in the dtype of ``x``; ``[..., n / 2]`` with a gate.
    """
    weights = torch.cat([one.float() for one in (weight, second, third) if one is not None])
    return whole_product(x, weights, bias, norm, residual, epsilon, gate)


@row_linear.register_fake
def _(x, weight, second, third, *others):  # type: ignore[no-untyped-def]
    gate = others[-1]
    columns = sum(one.size(0) for one in (weight, second, third) if one is not None)
    return x.new_empty((*x.shape[:-1], columns if gate == Gate.NONE else columns // 2))
