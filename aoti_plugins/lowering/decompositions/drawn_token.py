"""The operator ``aoti_plugins::drawn_token``: a token that is drawn by its logits.

The runtime for NVIDIA GPUs has kernels for it that sort nothing; elsewhere it is what
``composed_drawn_token`` computes.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.library import custom_op


def composed_drawn_token(logits: Tensor, settings: Tensor) -> Tensor:
    """``drawn_token`` in terms of ATen's operators."""
    _, temperature, top_k, top_p, min_p, number = settings.split(1)
    falling, order = ((logits - logits.max()) / temperature).sort(descending=True, stable=True)
    count = falling.shape[0]
    last = torch.where(top_k > 0, top_k, float(count)).clamp(1, count).to(torch.long) - 1
    powers = torch.where(falling >= falling.index_select(0, last), falling.exp(), 0.0)
    shares = powers / powers.sum()
    before = shares.cumsum(0) - shares
    kept = ((before < top_p) | (top_p >= 1)) & (shares >= min_p * shares[0])
    weights = torch.zeros_like(shares).scatter(0, order, torch.where(kept, shares, 0.0))
    sums = weights.cumsum(0)
    return (sums <= number * sums[-1]).sum().clamp(max=count - 1)[None]


@custom_op("aoti_plugins::drawn_token", mutates_args=())
def drawn_token(logits: Tensor, settings: Tensor) -> Tensor:
    """Draw a token: by temperature, then top-k, top-p and min-p, each over what is left.

    Of the tokens that are left, in their order, it is the one in whose share of their sum the
    random number falls.

    Args:
        logits: ``[n]``, float32 or float64, with the penalty.
        settings: ``[6]``, of the same dtype: the penalty, which is not used here, the temperature
            (over 0), top-k (0 for all), top-p, min-p, and a random number from 0 to below 1.

    Returns:
        ``[1]``, int64.
    """
    return composed_drawn_token(logits, settings)


@drawn_token.register_fake
def _(logits: Tensor, settings: Tensor) -> Tensor:
    del settings
    return logits.new_empty(1, dtype=torch.int64)
