"""The operators ``attention`` and ``mask_tiles``, which Inductor sees as their kernels."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.library import triton_op

from aoti_plugins.cuda.attention import launch
from aoti_plugins.cuda.attention.launch import MASK_TILE, Call, output_like, run, tiles_like


@triton_op("aoti_plugins::attention", mutates_args=())
def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    tiles: torch.Tensor | None,
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
        tiles: ``mask_tiles`` of the mask, which attentions with the same mask share; without them
            each makes its own where it needs them.
        causal: query ``i`` attends to keys ``0..i``.
        scale: factor of the scores, greater than 0.
        order: dimensions of the result from the one of the largest stride to the one of stride 1.

    Returns:
        ``[..., heads, q_len, v_head_dim]`` in the dtype of the query.
    """
    call = Call(query, key, value, mask, causal, scale, tiles)
    out = output_like(call, order)
    run(call, out)
    return out


@attention.register_fake
def _(query, key, value, mask, tiles, causal, scale, order):  # type: ignore[no-untyped-def]
    del tiles
    return output_like(Call(query, key, value, mask, causal, scale), order)


@attention.register_kernel("cpu")
def _(query, key, value, mask, tiles, causal, scale, order):  # type: ignore[no-untyped-def]
    """The math form, for a program that is run before its tensors move to a GPU."""
    del tiles
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


@triton_op("aoti_plugins::mask_tiles", mutates_args=())
def mask_tiles(mask: torch.Tensor) -> torch.Tensor:
    """What each tile of 64 queries and 64 keys of a mask lets in, for ``attention``.

    Args:
        mask: ``[..., q_len, kv_len]``, 2 to 4 dimensions, any strides; true where a query may
            attend, or a float that is added to scores.

    Returns:
        ``[..., ceil(q_len / 64), ceil(kv_len / 64)]`` of uint8: 0 where nothing is attended to, 2
        where everything is and nothing is added, else 1.
    """
    return launch.mask_tiles(mask)


@mask_tiles.register_fake
def _(mask):  # type: ignore[no-untyped-def]
    return tiles_like(mask)


@mask_tiles.register_kernel("cpu")
def _(mask):  # type: ignore[no-untyped-def]
    """Likewise, for a program that is run before its tensors move to a GPU."""
    is_open = mask if mask.dtype == torch.bool else mask != -torch.inf
    is_free = mask if mask.dtype == torch.bool else mask == 0
    some = _tiled(is_open, False).amax((-3, -1))
    every = _tiled(is_free, True).amin((-3, -1))
    return some.to(torch.uint8) + (some & every).to(torch.uint8)


def _tiled(matrices: torch.Tensor, beyond: bool) -> torch.Tensor:
    """``[..., tiles, 64, tiles, 64]`` of ``[..., rows, columns]``, filled up with ``beyond``."""
    gaps = [-size % MASK_TILE for size in matrices.shape[-2:]]
    whole = torch.nn.functional.pad(matrices, (0, gaps[1], 0, gaps[0]), value=beyond)
    return whole.unflatten(-2, (-1, MASK_TILE)).unflatten(-1, (-1, MASK_TILE))
