"""Whisper with what it has heard and what it has written as state.

The modules are transformers', but for attention in the decoder: there keys and values are buffers,
which torch.export knows as state, of sizes that do not change.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from aoti_plugins.language.speech.log_mel import LogMel


class SpeechModel(torch.nn.Module):
    """What the methods of a program share.

    Args:
        model: ``WhisperForConditionalGeneration``.
        preprocessor: what ``read_preprocessor`` gave.
        max_length: positions in the caches of the text.
    """

    def __init__(self, model: Any, preprocessor: Any, max_length: int) -> None:
        super().__init__()
        self.max_length = max_length
        self.log_mel = LogMel(preprocessor)
        self.encoder = model.model.encoder
        decoder = model.model.decoder
        self.embed_tokens = decoder.embed_tokens
        self.embed_positions = decoder.embed_positions
        heard = model.config.max_source_positions
        self.layers = torch.nn.ModuleList(
            _CachedLayer(layer, max_length, heard) for layer in decoder.layers
        )
        self.layer_norm = decoder.layer_norm
        self.proj_out = model.proj_out


class SpeechEncoder(torch.nn.Module):
    """The method ``encode``: takes audio, writes keys and values of it."""

    def __init__(self, speech: SpeechModel) -> None:
        super().__init__()
        self.speech = speech

    def forward(self, samples: Tensor) -> Tensor:
        """``[n]`` to the log-mel spectrum ``[1, bands, frames]``, float32 both."""
        speech = self.speech
        features: Tensor = speech.log_mel(samples)
        heard = speech.encoder(features.to(speech.encoder.conv1.weight.dtype)).last_hidden_state
        for layer in speech.layers:
            layer.hear(heard)
        return features


class SpeechDecoder(torch.nn.Module):
    """The methods that take tokens and where they are, and write the caches of the text."""

    logits_to_keep = 1
    """Of how many tokens, counted from the last one; 0 for all."""

    def __init__(self, speech: SpeechModel) -> None:
        super().__init__()
        self.speech = speech

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """``[1, T]`` and ``[T]`` to ``[1, 1 or T, vocabulary]``, float32."""
        speech = self.speech
        places = functional.embedding(positions, speech.embed_positions.weight)
        hidden = speech.embed_tokens(tokens) + places
        mask = torch.arange(speech.max_length, device=tokens.device) <= positions[:, None]
        for layer in speech.layers:
            hidden = layer(hidden, positions, mask)
        hidden = speech.layer_norm(hidden[:, -self.logits_to_keep :])
        return speech.proj_out(hidden).float()


class _CachedLayer(torch.nn.Module):
    """A layer of the decoder with its keys and values: of the text so far, and of the audio.

    Args:
        layer: ``WhisperDecoderLayer``.
        max_length: positions of the text.
        heard: positions of the audio.
    """

    keys: Tensor
    values: Tensor
    heard_keys: Tensor
    heard_values: Tensor

    def __init__(self, layer: Any, max_length: int, heard: int) -> None:
        super().__init__()
        self.layer = layer
        heads, width = layer.self_attn.num_heads, layer.self_attn.head_dim
        dtype = layer.final_layer_norm.weight.dtype
        for name, length in (("", max_length), ("heard_", heard)):
            for kind in ("keys", "values"):
                zeros = torch.zeros(1, heads, length, width, dtype=dtype)
                self.register_buffer(f"{name}{kind}", zeros)

    def hear(self, heard: Tensor) -> None:
        """Take keys and values of audio, ``[1, positions, width]``."""
        attention = self.layer.encoder_attn
        self.heard_keys.copy_(_by_heads(attention, attention.k_proj(heard)))
        self.heard_values.copy_(_by_heads(attention, attention.v_proj(heard)))

    def forward(self, hidden: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
        """``[1, T, width]`` to the same; ``mask`` says what of the text each token sees."""
        layer = self.layer
        hidden = hidden + self._from_text(layer.self_attn_layer_norm(hidden), positions, mask)
        hidden = hidden + self._from_audio(layer.encoder_attn_layer_norm(hidden))
        inner = layer.activation_fn(layer.fc1(layer.final_layer_norm(hidden)))
        return hidden + layer.fc2(inner)

    def _from_text(self, hidden: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
        attention = self.layer.self_attn
        self.keys.index_copy_(2, positions, _by_heads(attention, attention.k_proj(hidden)))
        self.values.index_copy_(2, positions, _by_heads(attention, attention.v_proj(hidden)))
        return _attended(attention, hidden, self.keys, self.values, mask)

    def _from_audio(self, hidden: Tensor) -> Tensor:
        return _attended(self.layer.encoder_attn, hidden, self.heard_keys, self.heard_values, None)


def _by_heads(attention: Any, values: Tensor) -> Tensor:
    """``[1, T, width]`` to ``[1, heads, T, width of a head]``."""
    return values.unflatten(-1, (attention.num_heads, attention.head_dim)).transpose(1, 2)


def _attended(
    attention: Any, hidden: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None
) -> Tensor:
    queries = _by_heads(attention, attention.q_proj(hidden) * attention.scaling)
    found = functional.scaled_dot_product_attention(queries, keys, values, mask, scale=1.0)
    return attention.out_proj(found.transpose(1, 2).flatten(2))
