"""How many bytes of weights a model reads for a token."""

from __future__ import annotations

from typing import Any

import torch

_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")


def token_nbytes(model: Any) -> int:
    """Bytes of the weights that a call for one token reads.

    Quantised weights count with their bits, scales and zeros; an embedding counts where it is the
    head as well, else a token looks up one row of it.

    Args:
        model: of transformers, with weights of any kind.

    Returns:
        0 where a token chooses what it reads: a model with experts.
    """
    text = model.config.get_text_config()
    if any(getattr(text, name, None) for name in _EXPERTS):
        return 0
    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    is_head = head is not None and head.weight is embedding.weight
    looked_up = set() if is_head else {id(one) for one in embedding.parameters()}
    return sum(_nbytes(one) for one in model.parameters() if id(one) not in looked_up)


def _nbytes(weight: torch.Tensor) -> int:
    if not hasattr(weight, "__tensor_flatten__"):
        return weight.nbytes
    # Elements of 4 bits have a byte each here.
    is_half = getattr(weight, "target_dtype", None) is torch.int4
    parts = {name: getattr(weight, name) for name in weight.__tensor_flatten__()[0]}
    return sum(
        part.nbytes // 2 if is_half and name == "qdata" else part.nbytes
        for name, part in parts.items()
    )
