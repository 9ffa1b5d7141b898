"""The operators ``token_attention`` and ``attended_range``, for which the runtime has kernels."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from aoti_plugins.cuda.gates import normed
from aoti_plugins.lowering.runtime_ops import runtime_op

HEAD_DIMS = (64, 128)
"""Elements of a head that the kernels take; must match native/src/cuda/ops/token_attention.cpp."""


@runtime_op(
    "aoti_plugins::token_attention", mutates_args=("keys", "values"), device_types=("cpu", "cuda")
)
def token_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cos: Tensor,
    sin: Tensor,
    query_norm: Tensor | None,
    key_norm: Tensor | None,
    keys: Tensor,
    values: Tensor,
    position: Tensor,
    mask: Tensor | None,
    attended: Tensor | None,
    scale: float,
    epsilon: float,
) -> Tensor:
    """Attention of one token over a cache, to which its key and value are written first.

    Query and key are rotated on the way: ``x * cos + cat((-x[d / 2:], x[:d / 2])) * sin``. Here it
    is computed by PyTorch; programs call the runtime.

    Args:
        query: ``[1, heads, 1, d]``, float16 or bfloat16, any strides; ``d`` is of ``HEAD_DIMS``.
        key: ``[1, kv_heads, 1, d]``, the dtype of the query; ``kv_heads`` divides ``heads``.
        value: as ``key``.
        cos: ``d`` elements, the dtype of the query.
        sin: likewise.
        query_norm: ``[d]``, likewise: each head is divided by the root of its mean square, and
            multiplied with it, before it is rotated.
        key_norm: likewise for the key.
        keys: ``[1, kv_heads, capacity, d]``; the key is written to it at ``position``.
        values: likewise.
        position: one int64, 0 to ``capacity - 1``.
        mask: bool, ``capacity`` elements: which positions are attended to; none for all.
        attended: ``attended_range`` of the mask; none without one.
        scale: of the scores.
        epsilon: added to mean squares.

    Returns:
        ``[1, heads, 1, d]``; zeros where nothing is attended to.
    """
    del attended
    turned = _rotated(normed(key, key_norm, epsilon).to(key.dtype), cos, sin)
    keys.index_copy_(2, position.view(1), turned)
    values.index_copy_(2, position.view(1), value)
    found = scaled_dot_product_attention(
        _rotated(normed(query, query_norm, epsilon).to(query.dtype), cos, sin).float(),
        keys.float(),
        values.float(),
        None if mask is None else mask.view(1, 1, 1, -1),
        scale=scale,
        enable_gqa=True,
    )
    return found.nan_to_num(0).to(query.dtype).contiguous()


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.float().chunk(2, -1)
    turned = torch.cat((-second, first), -1)
    return (x.float() * cos.view(-1).float() + turned * sin.view(-1).float()).to(x.dtype)


@token_attention.register_fake
def _(query, *others):  # type: ignore[no-untyped-def]
    del others
    return query.new_empty(query.shape)


@runtime_op("aoti_plugins::attended_range", device_types=("cpu", "cuda"))
def attended_range(mask: Tensor) -> Tensor:
    """Which positions a mask lets in, for ``token_attention``: all layers share it.

    Args:
        mask: bool, any shape.

    Returns:
        ``[4]`` of int32: the first position, the one behind the last, 1 if all between are let in,
        and 0.
    """
    places = mask.flatten().nonzero().flatten().tolist()
    begin, end = (places[0], places[-1] + 1) if places else (0, 0)
    return torch.tensor([begin, end, len(places) == end - begin, 0], dtype=torch.int32)


@attended_range.register_fake
def _(mask):  # type: ignore[no-untyped-def]
    return mask.new_empty(4, dtype=torch.int32)
