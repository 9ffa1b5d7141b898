"""The operator ``aoti_plugins::attention``, which Inductor sees as its kernels."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.library import triton_op

from aoti_plugins.cuda.attention.launch import Call, output_like, run


@triton_op("aoti_plugins::attention", mutates_args=())
def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    causal: bool,
    scale: float,
    order: Sequence[int],
) -> torch.Tensor:
    """Scaled dot-product attention by the kernels of this package.

    The kernels and their configuration are those for ``attention_target`` at the time of tracing.

    Args:
        query: ``[..., heads, q_len, head_dim]``, 2 to 4 dimensions, float16, bfloat16 or float32,
            any strides.
        key: ``[..., kv_heads, kv_len, head_dim]``, the dtype of the query; ``kv_heads`` divides
            ``heads``, what is before may broadcast.
        value: ``[..., kv_heads, kv_len, v_head_dim]``, likewise.
        mask: broadcasts to ``[..., heads, q_len, kv_len]``; true where a query may attend, or a
            float that is added to the scaled scores. A row that may attend to nothing gives zeros.
        causal: query ``i`` attends to keys ``0..i``.
        scale: factor of the scores, greater than 0.
        order: dimensions of the result from the one of the largest stride to the one of stride 1.

    Returns:
        ``[..., heads, q_len, v_head_dim]`` in the dtype of the query.
    """
    call = Call(query, key, value, mask, causal, scale)
    out = output_like(call, order)
    run(call, out)
    return out


@attention.register_fake
def _(query, key, value, mask, causal, scale, order):  # type: ignore[no-untyped-def]
    return output_like(Call(query, key, value, mask, causal, scale), order)


@attention.register_kernel("cpu")
def _(query, key, value, mask, causal, scale, order):  # type: ignore[no-untyped-def]
    """The math form, for a program that is run before its tensors move to a GPU."""
    call = Call(query, key, value, mask, causal, scale)
    out = output_like(call, order)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        result = torch.nn.functional.scaled_dot_product_attention(
            query,
            key,
            value,
            mask,
            is_causal=causal,
            scale=scale,
            enable_gqa=call.group > 1 and query.dim() > 2,
        )
    return out.copy_(result)
