"""Models whose layers take adapters (LoRA), which are state and no weights of the program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from aoti_plugins.errors import CheckpointError
from aoti_plugins.generation.adapter import AdaptedLayer, AdapterLayout
from aoti_plugins.language.checkpoint import Checkpoint
from aoti_plugins.language.recurrent import is_recurrent
from aoti_plugins.language.speech import is_speech


class _Adapted(torch.nn.Linear):
    """A linear layer with an adapter, ``lora_a`` ``[rank, in]`` and ``lora_b`` ``[out, rank]``.

    A layer becomes one by its class, so that its weight keeps its name and its kind.
    """

    lora_a: Tensor
    lora_b: Tensor

    def forward(self, input: Tensor) -> Tensor:
        """``[..., in]`` to ``[..., out]``."""
        inner = functional.linear(input, self.lora_a)
        return super().forward(input) + functional.linear(inner, self.lora_b)


class AdapterWriter(torch.nn.Module):
    """The method ``adapt``: writes an adapter to a decoder's state.

    Args:
        decoder: the one of the other methods; its model has layers that take adapters.
    """

    def __init__(self, decoder: Any) -> None:
        super().__init__()
        self.model = decoder.model  # so that the state has the names that it has in the decoder

    def forward(self, adapter: Tensor) -> Tensor:
        """``[numel]``, float32, in the order of ``AdapterLayout``, to its largest number."""
        begin = 0
        for layer in _adapted(self.model).values():
            for state in (layer.lora_a, layer.lora_b):
                state.copy_(adapter[begin : begin + state.numel()].view(state.shape))
                begin += state.numel()
        return adapter.abs().max()


def check_adapters(checkpoint: Checkpoint, targets: Sequence[str]) -> None:
    """Find out, before weights are read, whether a model's layers can take adapters.

    Args:
        checkpoint: which model it is.
        targets: as for ``add_adapters``.

    Raises:
        CheckpointError: the model is of a kind that takes none, or has no such layers.
    """
    config = checkpoint.config
    if is_recurrent(config) or is_speech(config):
        raise CheckpointError(f"{config.model_type!r} takes no adapters; leave --lora-rank out")
    layers = _linear_layers(checkpoint.outline())
    missing = [target for target in targets if not any(_is_target(n, target) for n in layers)]
    if missing or not layers:
        known = ", ".join(sorted({name.rpartition(".")[2] for name in layers})) or "none"
        raise CheckpointError(
            f"--lora-targets {','.join(missing)}: the model has no such linear layers; there are "
            f"{known}"
        )


def add_adapters(model: Any, rank: int, targets: Sequence[str]) -> None:
    """Let linear layers of a model take adapters; at first they change nothing.

    Args:
        model: with its weights, quantised or not, and checked by ``check_adapters``.
        rank: the largest rank of an adapter.
        targets: names of layers, whole or without what is in front of a dot; none for all but the
            last one, which makes logits.
    """
    for name, layer in _linear_layers(model).items():
        if targets and not any(_is_target(name, target) for target in targets):
            continue
        zeros = {
            "lora_a": torch.zeros(rank, layer.in_features, dtype=model.dtype),
            "lora_b": torch.zeros(layer.out_features, rank, dtype=model.dtype),
        }
        for buffer, value in zeros.items():
            layer.register_buffer(buffer, value)
        layer.__class__ = _Adapted


def adapter_layout(model: Any) -> AdapterLayout | None:
    """How the adapters of a model lie in a vector; ``None`` if its layers take none."""
    layers = _adapted(model)
    if not layers:
        return None
    rank = next(iter(layers.values())).lora_a.shape[0]
    found = (AdaptedLayer(n, one.in_features, one.out_features) for n, one in layers.items())
    return AdapterLayout(rank, tuple(found))


def adapter_metadata(model: Any) -> dict[str, Any]:
    """The constant methods that say which adapters a program takes; none if it takes none."""
    layout = adapter_layout(model)
    if layout is None:
        return {}
    return {"get_adapter_layout": layout.to_text(), "get_adapter_numel": layout.numel}


def _adapted(model: Any) -> dict[str, _Adapted]:
    return {name: one for name, one in model.named_modules() if isinstance(one, _Adapted)}


def _linear_layers(model: Any) -> dict[str, torch.nn.Linear]:
    """By name, without the last one."""
    head = model.get_output_embeddings()
    return {
        name: module
        for name, module in model.named_modules()
        if type(module) is torch.nn.Linear and module is not head
    }


def _is_target(name: str, target: str) -> bool:
    return name == target or name.endswith(f".{target}")
