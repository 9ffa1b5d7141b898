"""Operators for weights of GGUF's ``q6_k``: a product and an embedding."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch._ops import OpOverload

from aoti_plugins.cuda.small_weights.planes import values
from aoti_plugins.lowering.decompositions.index_dim import without_negatives
from aoti_plugins.lowering.runtime_ops import runtime_op


@runtime_op("aoti_plugins::q6_k_linear", device_types=("cpu", "cuda"))
def q6_k_linear(x: Tensor, low: Tensor, high: Tensor, scale: Tensor, step: Tensor) -> Tensor:
    """Product with the transpose of a weight ``[n, k]`` in planes.

    Here it is computed by PyTorch, in float32; programs call the runtime.

    Args:
        x: ``[..., k]``, bfloat16.
        low: ``[n, k / 2]`` of uint8, from ``small_weights.planes.pack``.
        high: ``[n, k / 4]`` of uint8, likewise.
        scale: ``[n, k / 16]``, int8.
        step: ``[n, k / 256]``, float16: what scales are multiples of.

    Returns:
        ``[..., n]``, bfloat16.
    """
    found = torch.nn.functional.linear(x.float(), values(low, high, scale, step))
    return found.to(x.dtype)


@q6_k_linear.register_fake
def _(x, low, *others):  # type: ignore[no-untyped-def]
    del others
    return x.new_empty((*x.shape[:-1], low.size(0)))


def _rows(
    rows: Tensor,
    low: Tensor,
    high: Tensor,
    scale: Tensor,
    step: Tensor,
    dtype: torch.dtype,
    may_be_negative: bool,
) -> Tensor:
    """Rows of such a weight, in plain PyTorch, of which code is generated.

    Args:
        rows: which rows of the weight, integers in any shape.
        low: as of ``q6_k_linear``, with the other parts of the weight.
        high: likewise.
        scale: likewise.
        step: likewise.
        dtype: of the result.
        may_be_negative: numbers below 0 count from the end; else they are out of range.

    Returns:
        ``[*rows, k]``.
    """
    rows = rows if may_be_negative else without_negatives(rows)
    return values(low[rows], high[rows], scale[rows], step[rows]).to(dtype)


rows_of_q6_k = torch.library.custom_op("aoti_plugins::rows_of_q6_k", _rows, mutates_args=())


@rows_of_q6_k.register_fake
def _(rows, low, high, scale, step, dtype, may_be_negative):  # type: ignore[no-untyped-def]
    del high, scale, step, may_be_negative
    return low.new_empty((*rows.shape, low.size(1) * 2), dtype=dtype)


DECOMPOSITIONS: Mapping[OpOverload, Callable[..., Tensor]] = {
    torch.ops.aoti_plugins.rows_of_q6_k.default: _rows
}
