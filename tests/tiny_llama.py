"""A decoder as small as they come, in the form of Llama, and a tokenizer for it.

It has what language models that people run have in common: rotary positions, groups of heads over
one key and value, caches in buffers. A token is a letter or a digit, so that a text says which
tokens it is made of.
"""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export

LETTERS = string.digits + string.ascii_letters
BEGIN, END = "<s>", "</s>"
VOCABULARY = (*LETTERS, BEGIN, END)
CONTEXT = 48
_WIDTH, _HEADS, _KV_HEADS, _HEAD = 32, 4, 2, 8


class Attention(nn.Module):
    """Self-attention over cached keys and values ``[1, kv heads, context, head]``, float32."""

    def __init__(self) -> None:
        super().__init__()
        self.q = nn.Linear(_WIDTH, _HEADS * _HEAD, bias=False)
        self.k = nn.Linear(_WIDTH, _KV_HEADS * _HEAD, bias=False)
        self.v = nn.Linear(_WIDTH, _KV_HEADS * _HEAD, bias=False)
        self.out = nn.Linear(_HEADS * _HEAD, _WIDTH, bias=False)
        self.register_buffer("k_cache", torch.zeros(1, _KV_HEADS, CONTEXT, _HEAD))
        self.register_buffer("v_cache", torch.zeros(1, _KV_HEADS, CONTEXT, _HEAD))

    def forward(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Attend from ``x`` ``[1, T, width]`` at positions ``[T]`` to all that came before."""
        q = _rotate(_split(self.q(x), _HEADS), positions)
        self.k_cache[:, :, positions] = _rotate(_split(self.k(x), _KV_HEADS), positions)
        self.v_cache[:, :, positions] = _split(self.v(x), _KV_HEADS)
        seen = torch.arange(CONTEXT) <= positions[:, None]
        y = nn.functional.scaled_dot_product_attention(
            q,
            self.k_cache.repeat_interleave(_HEADS // _KV_HEADS, dim=1),
            self.v_cache.repeat_interleave(_HEADS // _KV_HEADS, dim=1),
            attn_mask=seen,
        )
        return self.out(y.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """Attention and a gated feed-forward part, each behind a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention()
        self.attention_norm, self.norm = nn.RMSNorm(_WIDTH), nn.RMSNorm(_WIDTH)
        self.gate, self.up = (nn.Linear(_WIDTH, 2 * _WIDTH, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * _WIDTH, _WIDTH, bias=False)

    def forward(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """``[1, T, width]`` to the same."""
        x = x + self.attention(self.attention_norm(x), positions)
        y = self.norm(x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


class TinyLlama(nn.Module):
    """Tokens ``[1, T]`` and the position of the first ``[1]`` to logits ``[1, T, vocabulary]``."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(len(VOCABULARY), _WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        self.norm = nn.RMSNorm(_WIDTH)
        self.head = nn.Linear(_WIDTH, len(VOCABULARY), bias=False)
        with torch.no_grad():
            self.head.weight[len(LETTERS) :] = 0  # texts neither begin again nor end

    def forward(self, tokens: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
        """Take tokens that follow those of the calls before."""
        positions = start + torch.arange(tokens.shape[1])
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, positions)
        return self.head(self.norm(x))


def encode(text: str) -> torch.Tensor:
    """Tokens ``[1, T]`` of a text of letters and digits."""
    return torch.tensor([[VOCABULARY.index(letter) for letter in text]])


@torch.no_grad()
def generate(prompt: str, count: int) -> str:
    """What eager PyTorch generates after a prompt, greedily."""
    model, tokens = TinyLlama().eval(), encode(prompt)
    text, position = "", 0
    for _ in range(count):
        logits = model(tokens, torch.tensor([position]))
        position += tokens.shape[1]
        tokens = logits[:, -1].argmax(-1, keepdim=True)
        text += VOCABULARY[int(tokens)]
    return text


def export_methods(**longest: int) -> dict[str, ExportedProgram]:
    """Methods of one model by name, each with the most tokens that a call of it may have."""
    model = TinyLlama().eval()
    start = torch.tensor([0])
    return {
        name: export(
            model,
            (torch.zeros(1, min(most, 5), dtype=torch.long), start),
            dynamic_shapes={"tokens": {1: Dim("tokens", max=most)}, "start": None}
            if most > 1
            else None,
        )
        for name, most in longest.items()
    }


def runner_constants(longest: int) -> dict[str, Any]:
    """The constant methods that ExecuTorch's runner asks a program for.

    Args:
        longest: the most tokens that it may give in one call.
    """
    return {
        "get_max_seq_len": longest,
        "get_max_context_len": CONTEXT,
        "get_vocab_size": len(VOCABULARY),
        "get_bos_id": VOCABULARY.index(BEGIN),
        "get_eos_ids": [VOCABULARY.index(END)],
        "use_kv_cache": True,
        "enable_dynamic_shape": True,
    }


def write_tokenizer(folder: Path) -> Path:
    """Write the tokenizer in the format of Hugging Face; returns its path."""
    ids = {token: i for i, token in enumerate(VOCABULARY)}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    path = folder / "tokenizer.json"
    content = {
        "version": "1.0",
        "added_tokens": [
            {"id": ids[token], "content": token, "special": True} for token in (BEGIN, END)
        ],
        "pre_tokenizer": byte_level,
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": {t: ids[t] for t in LETTERS}, "merges": []},
    }
    path.write_text(json.dumps(content))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"bos_token": BEGIN, "eos_token": END})
    )
    return path


def _split(x: torch.Tensor, heads: int) -> torch.Tensor:
    """``[1, T, heads * head]`` to ``[1, heads, T, head]``."""
    return x.unflatten(2, (heads, _HEAD)).transpose(1, 2)


def _rotate(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Rotary positions, by halves of a head."""
    steps = torch.arange(_HEAD // 2) / (_HEAD // 2)
    angles = positions[:, None] * (10000.0**-steps)
    low, high = x.chunk(2, dim=-1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat((low * cos - high * sin, high * cos + low * sin), dim=-1)
