"""Which weights of a model ``--quantize`` makes small, and which stay as they are."""

from __future__ import annotations

import re
from typing import Any

import torch

from aoti_plugins.language.recurrent import is_recurrent

_TIME_STEPS = "dt_proj"
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")


def quantised_layers(model: Any) -> dict[str, torch.nn.Linear]:
    """The layers whose weights are quantised, by name: products of rows with one matrix.

    Embeddings, matrices of experts and routers are no such layers. State-space models compute time
    steps with a layer that is as narrow as one group, and whose errors the state sums up; it stays.
    """
    keeps_steps = is_recurrent(model.config)
    return {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) and not (keeps_steps and name.endswith(_TIME_STEPS))
    }


def kept_matrices(model: Any) -> dict[str, int]:
    """Bytes of the matrices of a quantised model that are plain tensors.

    Returns:
        By name, with ``*`` for the numbers of layers; the largest first.
    """
    kept: dict[str, int] = {}
    for name, parameter in model.named_parameters():
        if type(parameter) is torch.nn.Parameter and parameter.dim() > 1:
            short = _NUMBER.sub("*", name)
            kept[short] = kept.get(short, 0) + parameter.nbytes
    return dict(sorted(kept.items(), key=lambda one: -one[1]))
