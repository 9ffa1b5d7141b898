"""Decoders of transformers as exported programs with one dynamic method."""

from __future__ import annotations

from typing import Any

import torch
from torch.export import Dim, ExportedProgram
from transformers.integrations.executorch import TorchExportableModuleWithStaticCache

from aoti_plugins.errors import CheckpointError
from aoti_plugins.generation import tokenizer_digest
from aoti_plugins.language.checkpoint import Checkpoint
from aoti_plugins.language.quantised_layers import quantised_layers
from aoti_plugins.language.recurrent import BLOCK, RecurrentDecoder, is_recurrent

_BITS = {"int4": torch.int4, "int8": torch.int8}
_EXAMPLE_LENGTH = 3


class _CachedDecoder(TorchExportableModuleWithStaticCache):
    """Takes tokens and where they are, writes its caches and gives the last token's logits.

    torch.export knows buffers of the module alone as state, so the cache gets these in each call.
    How many positions it has is no state: the positions say so.
    """

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """``[1, T]`` and ``[T]`` to ``[1, 1, vocabulary]``, float32."""
        for i, layer in enumerate(self.static_cache.layers):
            layer.keys = getattr(self, f"key_cache_{i}")
            layer.values = getattr(self, f"value_cache_{i}")
            layer.cumulative_length = positions[0].clone()
        result = self.model(
            input_ids=tokens, past_key_values=self.static_cache, use_cache=True, logits_to_keep=1
        )
        return result.logits.float()


def check_groups(model: Any, group_size: int) -> None:
    """Find out, from a model with or without weights, whether groups fit its products.

    Raises:
        CheckpointError: a weight's rows cannot be divided into such groups.
    """
    wrong = {
        name: module.in_features
        for name, module in quantised_layers(model).items()
        if module.in_features % group_size
    }
    if wrong:
        name, width = min(wrong.items())
        raise CheckpointError(
            f"groups of {group_size} do not fit {len(wrong)} weights, such as {name} with rows of "
            f"{width}; choose a --group-size that divides it"
        )


def quantize(model: Any, kind: str, group_size: int) -> None:
    """Quantise the weights of a model's products in place, with torchao.

    Args:
        model: with its weights.
        kind: ``"int4"`` or ``"int8"``.
        group_size: how many weights of a row have one scale.
    """
    from torchao.quantization import IntxWeightOnlyConfig, PerGroup, quantize_

    chosen = set(quantised_layers(model).values())
    config = IntxWeightOnlyConfig(_BITS[kind], granularity=PerGroup(group_size))
    quantize_(model, config, filter_fn=lambda module, _: module in chosen)


def export_decoder(model: Any, max_length: int) -> ExportedProgram:
    """Export a decoder with its key and value caches, or what stands for them, as state.

    Args:
        model: what ``Checkpoint.load`` gave.
        max_length: positions in the caches.

    Returns:
        A program that takes ``tokens`` ``[1, T]`` and their ``positions`` ``[T]``, int64 both, and
        gives logits ``[1, 1, vocabulary]`` of the last token, float32.

    Raises:
        CheckpointError: the model cannot be exported.
    """
    model.generation_config.cache_implementation = "static"
    model.generation_config.use_cache = True
    length = Dim("length", max=most_of_a_call(model.config, max_length))
    inputs = (
        torch.zeros(1, _EXAMPLE_LENGTH, dtype=torch.long),
        torch.arange(_EXAMPLE_LENGTH),
    )
    shapes = {"tokens": {1: length}, "positions": {0: length}}
    try:
        with torch.no_grad():
            decoder = _decoder(model, max_length).eval()
            return torch.export.export(decoder, inputs, dynamic_shapes=shapes, strict=False)
    except Exception as error:  # whatever a model's code and torch.export raise
        raise CheckpointError(
            f"torch.export cannot take {type(model).__name__} with a static cache: {error}"
        ) from error


def _decoder(model: Any, max_length: int) -> torch.nn.Module:
    if is_recurrent(model.config):
        return RecurrentDecoder(model)
    return _CachedDecoder(model, batch_size=1, max_cache_len=max_length)


def most_of_a_call(config: Any, max_length: int) -> int:
    """The most tokens that one call of a program takes."""
    return min(BLOCK, max_length) if is_recurrent(config) else max_length


def metadata(checkpoint: Checkpoint, model: Any, max_length: int) -> dict[str, Any]:
    """The constant methods that say what a program is; ExecuTorch's runner asks for them."""
    chosen = model.generation_config
    begin = chosen.bos_token_id if chosen.bos_token_id is not None else -1
    end = chosen.eos_token_id if chosen.eos_token_id is not None else []
    return {
        "get_max_seq_len": most_of_a_call(checkpoint.config, max_length),
        "get_max_context_len": max_length,
        "get_vocab_size": checkpoint.config.vocab_size,
        "get_bos_id": begin,
        "get_eos_ids": list(end) if isinstance(end, (list, tuple)) else [end],
        "use_kv_cache": True,
        "is_recurrent": is_recurrent(checkpoint.config),
        "use_sdpa_with_kv_cache": False,
        "enable_dynamic_shape": True,
        "get_tokenizer_digest": tokenizer_digest(checkpoint.tokenizer_path),
    }
