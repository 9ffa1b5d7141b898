"""Decoders of transformers as exported programs, a method for each way of reading tokens."""

from __future__ import annotations

from typing import Any

import torch
from torch.export import Dim, ExportedProgram
from transformers.integrations.executorch import TorchExportableModuleWithStaticCache

from aoti_plugins.errors import CheckpointError
from aoti_plugins.generation import tokenizer_digest
from aoti_plugins.language.checkpoint import Checkpoint
from aoti_plugins.language.computed_sizes import check_sizes
from aoti_plugins.language.quantised_layers import quantised_layers
from aoti_plugins.language.recurrent import BLOCK, RecurrentDecoder, is_recurrent

_BITS = {"int4": torch.int4, "int8": torch.int8}
_EXAMPLE_LENGTH = 3


class _CachedDecoder(TorchExportableModuleWithStaticCache):
    """Takes tokens and where they are, writes its caches and gives the last token's logits.

    torch.export knows buffers of the module alone as state, so the cache gets these in each call.
    How many positions it has is no state: the positions say so.
    """

    logits_to_keep = 1
    """Of how many tokens, counted from the last one; 0 for all."""

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """``[1, T]`` and ``[T]`` to ``[1, 1 or T, vocabulary]``, float32."""
        for i, layer in enumerate(self.static_cache.layers):
            layer.keys = getattr(self, f"key_cache_{i}")
            layer.values = getattr(self, f"value_cache_{i}")
            layer.cumulative_length = positions[0].clone()
        result = self.model(
            input_ids=tokens,
            past_key_values=self.static_cache,
            use_cache=True,
            logits_to_keep=self.logits_to_keep,
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


def export_decoder(
    model: Any, max_length: int, style: str = "forward", num_speculative_tokens: int = 0
) -> dict[str, ExportedProgram]:
    """Export a decoder with its key and value caches, or what stands for them, as state.

    Every method takes ``tokens`` ``[1, T]`` and their ``positions`` ``[T]``, int64 both, and gives
    logits ``[1, 1, vocabulary]`` of the last token, float32. Methods share the caches.

    Args:
        model: what ``Checkpoint.load`` gave.
        max_length: positions in the caches.
        style: ``"forward"``, one method for any T; or ``"prefill-decode"``, a method ``prefill``
            for any T and a method ``decode`` for one token.
        num_speculative_tokens: over 0 there is a method ``verify`` as well, for one token more at
            most, which gives the logits ``[1, T, vocabulary]`` of all.

    Returns:
        The methods by name.

    Raises:
        CheckpointError: the model cannot be exported, or keeps no text that can be cut.
    """
    check_speculation(model.config, num_speculative_tokens)
    model.generation_config.cache_implementation = "static"
    model.generation_config.use_cache = True
    most = most_of_a_call(model.config, max_length)
    lengths = {"forward": most} if style == "forward" else {"prefill": most, "decode": 1}
    if num_speculative_tokens:
        lengths["verify"] = min(most, num_speculative_tokens + 1)
    try:
        with torch.no_grad():
            decoder = _decoder(model, max_length).eval()
            methods = {name: _exported(decoder, name, most) for name, most in lengths.items()}
    except Exception as error:  # whatever a model's code and torch.export raise
        raise CheckpointError(
            f"torch.export cannot take {type(model).__name__} with a static cache: {error}"
        ) from error
    for program in methods.values():
        check_sizes(program, type(model).__name__)
    return methods


def check_speculation(config: Any, num_speculative_tokens: int) -> None:
    """Find out, from a configuration, whether a model can check tokens that it may not take.

    Raises:
        CheckpointError: it cannot, as its state stands for all that it has read.
    """
    if num_speculative_tokens and is_recurrent(config):
        raise CheckpointError(
            f"{config.model_type!r} cannot speculate: its state stands for all tokens that it has "
            "read, and cannot be cut where one of them was wrong"
        )


def _exported(decoder: torch.nn.Module, name: str, most: int) -> ExportedProgram:
    """The decoder for 1 to ``most`` tokens, as one method."""
    example = min(_EXAMPLE_LENGTH, most)
    inputs = torch.zeros(1, example, dtype=torch.long), torch.arange(example)
    length = Dim("length", max=most)
    shapes = {"tokens": {1: length}, "positions": {0: length}} if most > 1 else None
    decoder.logits_to_keep = 0 if name == "verify" else 1
    return torch.export.export(decoder, inputs, dynamic_shapes=shapes, strict=False)


def _decoder(model: Any, max_length: int) -> torch.nn.Module:
    if is_recurrent(model.config):
        return RecurrentDecoder(model)
    return _CachedDecoder(model, batch_size=1, max_cache_len=max_length)


def most_of_a_call(config: Any, max_length: int) -> int:
    """The most tokens that one call of a program takes."""
    return min(BLOCK, max_length) if is_recurrent(config) else max_length


def metadata(
    checkpoint: Checkpoint, model: Any, max_length: int, num_speculative_tokens: int = 0
) -> dict[str, Any]:
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
        "get_num_speculative_tokens": num_speculative_tokens,
        "use_sdpa_with_kv_cache": False,
        "enable_dynamic_shape": True,
        "get_tokenizer_digest": tokenizer_digest(checkpoint.tokenizer_path),
    }
