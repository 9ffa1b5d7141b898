"""Which weights of a model ``--quantize`` makes small, and which stay as they are."""

from __future__ import annotations

import re
from typing import Any

import torch

from aoti_plugins.language.recurrent import is_recurrent

_TIME_STEPS = "dt_proj"
_CODES = ".parametrizations."
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")


def quantised_layers(model: Any) -> dict[str, torch.nn.Module]:
    """The layers whose weights are quantised, by name.

    They are products of rows with one matrix, and the embedding of tokens. Matrices of experts
    (``experts.py``), routers and embeddings of positions are no such layers. State-space models
    compute time steps with a layer that is as narrow as one group, and whose errors the state sums
    up; it stays.
    """
    keeps_steps, embedding = is_recurrent(model.config), model.get_input_embeddings()
    return {
        name: module
        for name, module in model.named_modules()
        if (isinstance(module, torch.nn.Linear) or module is embedding)
        and not (keeps_steps and name.endswith(_TIME_STEPS))
    }


def tied_head(model: Any) -> torch.nn.Module | None:
    """The last layer, if its weight is the embedding; else ``None``."""
    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    is_tied = isinstance(head, torch.nn.Linear) and head.weight is embedding.weight
    return head if is_tied else None


def kept_matrices(model: Any) -> dict[str, int]:
    """Bytes of the matrices of a quantised model that are plain tensors.

    Returns:
        By name, with ``*`` for the numbers of layers; the largest first.
    """
    kept: dict[str, int] = {}
    for name, parameter in model.named_parameters():
        is_plain = type(parameter) is torch.nn.Parameter and _CODES not in name
        if is_plain and parameter.dim() > 1:
            short = _NUMBER.sub("*", name)
            kept[short] = kept.get(short, 0) + parameter.nbytes
    return dict(sorted(kept.items(), key=lambda one: -one[1]))
