"""The operator ``aoti_plugins::chosen_experts``, for which the CUDA runtime has a kernel."""

from __future__ import annotations

import torch
from torch import Tensor

from aoti_plugins.lowering.runtime_ops import runtime_op

MOST_SCORES, MOST_CHOSEN = 512, 32
"""As in native/src/cuda/kernels/experts.h."""


@runtime_op("aoti_plugins::chosen_experts", device_types=("cpu", "cuda"))
def chosen_experts(scores: Tensor, chosen: int, is_normalised: bool) -> tuple[Tensor, Tensor]:
    """What a router chooses: experts with the largest scores, and their shares of a softmax.

    Args:
        scores: ``[m, count]``, float16, bfloat16 or float32; ``MOST_SCORES`` of a row at most.
        chosen: how many, ``MOST_CHOSEN`` at most.
        is_normalised: the shares of a row are divided by their sum.

    Returns:
        Shares ``[m, chosen]``, float32, the largest first, and whose they are, int64.
    """
    shares, experts = scores.float().softmax(-1).topk(chosen)
    return shares / shares.sum(-1, keepdim=True) if is_normalised else shares, experts


@chosen_experts.register_fake
def _(scores, chosen, is_normalised):  # type: ignore[no-untyped-def]
    del is_normalised
    sizes = (scores.size(0), chosen)
    return scores.new_empty(sizes, dtype=torch.float32), scores.new_empty(sizes, dtype=torch.int64)
