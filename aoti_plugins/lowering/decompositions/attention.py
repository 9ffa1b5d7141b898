"""Fused attention ops that a program may hold, in plain terms.

A pass replaces those whose result alone is used where a runtime has a kernel for attention; these
serve the rest. Results for gradients, seeds for instance, are empty.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from aoti_plugins.lowering.decompositions.windows import accumulation_dtype

_CAUSAL_FROM_TOP, _CAUSAL_TO_BOTTOM = 1, 2


def flash_attention(q: Tensor, k: Tensor, v: Tensor, *how: Any, **named: Any) -> Any:
    """``aten._scaled_dot_product_flash_attention.default`` of ``[b, heads, n, d]``."""
    return fused_attention(q, k, v, None, *how, **named)


def flash_attention_for_cpu(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> Any:
    """``aten._scaled_dot_product_flash_attention_for_cpu.default``."""
    if dropout_p:
        return NotImplemented
    return _attend(q, k, v, _causal(q, k, 0) if is_causal else None, scale, attn_mask)


def efficient_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_bias: Tensor | None,
    compute_log_sumexp: bool,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
) -> Any:
    """``aten._scaled_dot_product_efficient_attention.default``."""
    del compute_log_sumexp
    if dropout_p:
        return NotImplemented
    found, logsumexp = _attend(q, k, v, _causal(q, k, 0) if is_causal else None, scale, attn_bias)
    seed, _ = _nothing(q)
    return found, logsumexp, seed, seed.clone()


def cudnn_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_bias: Tensor | None,
    compute_log_sumexp: bool,
    *how: Any,
    **named: Any,
) -> Any:
    """``aten._scaled_dot_product_cudnn_attention.default``."""
    del compute_log_sumexp
    return fused_attention(q, k, v, attn_bias, *how, **named)


def fused_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_bias: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> Any:
    """``aten._scaled_dot_product_fused_attention_overrideable.default``."""
    del return_debug_mask
    if dropout_p:
        return NotImplemented
    found, logsumexp = _attend(q, k, v, _causal(q, k, 0) if is_causal else None, scale, attn_bias)
    seed, nothing = _nothing(q)
    return found, logsumexp, None, None, q.size(2), k.size(2), seed, seed.clone(), nothing


def math_for_mps(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    dropout_mask: Tensor | None = None,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """``aten._scaled_dot_product_attention_math_for_mps.default``: the result and the weights.

    ``aten._scaled_dot_product_attention_math.default`` has the same arguments and results.
    """
    if dropout_p or dropout_mask is not None:
        return NotImplemented
    if enable_gqa:
        k, v = _of_each_query_head(q, k, -3), _of_each_query_head(q, v, -3)
    scores = _scores(q, k, _causal(q, k, 0) if is_causal else None, scale, attn_mask)
    weights = scores.softmax(-1).to(q.dtype)
    return weights @ v, weights


def flash_attention_forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cum_seq_q: Tensor | None,
    cum_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    return_debug_mask: bool,
    *,
    scale: float | None = None,
    **others: Any,
) -> Any:
    """``aten._flash_attention_forward.default`` of a batch: ``[b, n, heads, d]``."""
    del max_q, max_k, return_debug_mask
    is_batch = cum_seq_q is None and cum_seq_k is None
    if dropout_p or not is_batch or any(value is not None for value in others.values()):
        return NotImplemented
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    mask = _causal(q, k, k.size(2) - q.size(2)) if is_causal else None
    found, logsumexp = _attend(q, k, v, mask, scale)
    seed, nothing = _nothing(q)
    return found.transpose(1, 2), logsumexp, seed, seed.clone(), nothing


def efficient_attention_forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    cu_seqlens_q: Tensor | None,
    cu_seqlens_k: Tensor | None,
    max_seqlen_q: int | None,
    max_seqlen_k: int | None,
    dropout_p: float,
    custom_mask_type: int,
    compute_log_sumexp: bool = False,
    *,
    scale: float | None = None,
    seqlen_k: Tensor | None = None,
    window_size: int | None = None,
) -> Any:
    """``aten._efficient_attention_forward.default`` of a batch: ``[b, n, heads, d]``."""
    del max_seqlen_q, max_seqlen_k, compute_log_sumexp
    others = (cu_seqlens_q, cu_seqlens_k, seqlen_k, window_size)
    if dropout_p or any(value is not None for value in others):
        return NotImplemented
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    mask = None
    if custom_mask_type in (_CAUSAL_FROM_TOP, _CAUSAL_TO_BOTTOM):
        shift = 0 if custom_mask_type == _CAUSAL_FROM_TOP else k.size(2) - q.size(2)
        mask = _causal(q, k, shift)
    found, logsumexp = _attend(q, k, v, mask, scale, bias)
    seed, _ = _nothing(q)
    return found.transpose(1, 2), logsumexp, seed, seed.clone(), q.size(2), k.size(2)


def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    scale: float | None,
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """``[b, heads, n, d]``, the result, and ``[b, heads, n]``, the logarithms of the sums.

    Several heads of queries may share one of keys and values.
    """
    k, v = _of_each_query_head(q, k, 1), _of_each_query_head(q, v, 1)
    scores = _scores(q, k, mask, scale, bias)
    # A row that may look at nothing is 0.
    sees_any = (scores != -math.inf).any(-1, keepdim=True)
    weights = torch.where(sees_any, scores.softmax(-1), 0)
    return weights.to(q.dtype) @ v, scores.logsumexp(-1)


def _of_each_query_head(q: Tensor, shared: Tensor, dim: int) -> Tensor:
    """Heads of keys or values, each as often as queries share it; ``dim`` is that of heads."""
    heads, own = q.size(dim), shared.size(dim)
    if not (isinstance(heads, int) and isinstance(own, int)) or own in (1, heads):
        return shared
    return shared.repeat_interleave(heads // own, dim)


def _scores(
    q: Tensor, k: Tensor, mask: Tensor | None, scale: float | None, bias: Tensor | None
) -> Tensor:
    wide = accumulation_dtype(q.dtype)
    factor = scale if scale is not None else 1 / math.sqrt(q.size(-1))
    root = math.sqrt(abs(factor))
    scores = ((q * math.copysign(root, factor)) @ (k * root).mT).to(wide)
    if bias is not None and bias.dtype == torch.bool:
        scores = torch.where(bias, scores, -math.inf)
    elif bias is not None:
        scores = scores + bias
    return scores if mask is None else torch.where(mask, scores, -math.inf)


def _causal(q: Tensor, k: Tensor, shift: int) -> Tensor:
    rows = torch.arange(q.size(2), device=q.device)[:, None]
    return torch.arange(k.size(2), device=q.device) <= rows + shift


def _nothing(q: Tensor) -> tuple[Tensor, Tensor]:
    """A seed and a mask that nobody asked for."""
    return torch.zeros((), dtype=torch.int64, device=q.device), q.new_empty(0)
