"""Folders with tiny language models of transformers, random, and a tokenizer of bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

MAX_LENGTH = 96
GROUP = 32
"""Weights that have one scale, where they are quantised."""
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if message.role == 'system' and not loop.first %}"
    "{{ raise_exception('the system speaks first') }}{% endif %}"
    "{{ message.role[0] }}:{{ message.content | trim }}\n{% endfor %}"
    "{% if add_generation_prompt %}a:{% endif %}"
)
"""Of a tiny checkpoint: short, for its texts are."""
BEGIN, END = 256, 257
_PRINTABLE = 94  # tokens of the tokenizer below: ASCII from "!" to "~" comes first
_SIZES = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 264,
    "max_position_embeddings": 128,
    "bos_token_id": BEGIN,
    "eos_token_id": END,
    "pad_token_id": END,
    # Larger than usual: with small weights a random model says one token over and over.
    "initializer_range": 0.2,
}
_KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", {}),
    "llama_tied": (
        "LlamaConfig",
        {
            "tie_word_embeddings": True,
            "hidden_size": 128,
            "intermediate_size": 256,
            "num_hidden_layers": 1,
            "head_dim": 32,
        },
    ),
    "qwen3": ("Qwen3Config", {}),
    "gemma3": (
        "Gemma3TextConfig",
        {
            "sliding_window": 16,
            "layer_types": ["sliding_attention", "full_attention"],
            "tie_word_embeddings": False,
        },
    ),
    "qwen3_moe": (
        "Qwen3MoeConfig",
        {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32},
    ),
    "phi": ("PhiConfig", {"num_key_value_heads": 4, "initializer_range": 0.5}),
    "phi3": ("Phi3Config", {}),
    "opt": ("OPTConfig", {"num_key_value_heads": 4, "ffn_dim": 128, "word_embed_proj_dim": 64}),
    "mamba": ("MambaConfig", {"state_size": 8, "tie_word_embeddings": False}),
    "falcon_mamba": ("FalconMambaConfig", {"state_size": 8, "tie_word_embeddings": False}),
}
"""Classes of configurations, and what is not ``_SIZES`` in them."""


def config(kind: str) -> Any:
    """The configuration of a kind in ``_KINDS``."""
    import transformers

    name, changes = _KINDS[kind]
    return getattr(transformers, name)(**{**_SIZES, **changes})


def write_checkpoint(folder: Path, kind: str) -> Path:
    """Write weights, configuration and tokenizer; returns the folder."""
    import torch
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config(kind))
    with torch.no_grad():
        model.lm_head.weight[_PRINTABLE:] = 0  # greedy texts are ASCII, and do not end
    model.save_pretrained(folder)
    write_tokenizer(folder / "tokenizer.json")
    settings = {"bos_token": "<s>", "eos_token": "</s>", "chat_template": CHAT_TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def write_tokenizer(path: Path, *words: str) -> Path:
    """Write a tokenizer with a token for each byte, and with more special tokens where given."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: i for i, letter in enumerate(letters)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<s>", "</s>", *words])
    tokenizer.save(str(path))
    return path


def tokens_of(folder: Path, text: str) -> list[int]:
    """A text in the tokens of a checkpoint."""
    from tokenizers import Tokenizer

    return list(Tokenizer.from_file(str(folder / "tokenizer.json")).encode(text).ids)


def greedy_tokens(folder: Path, prompt: list[int], count: int, quantize: str = "none") -> list[int]:
    """What transformers generates, greedily, with weights as the quantised ones stand for."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype="float32").eval()
    stand_for_quantised(model, quantize)
    given = torch.tensor([prompt])
    mask = torch.ones_like(given)
    tokens = model.generate(given, attention_mask=mask, max_new_tokens=count, do_sample=False)
    found: list[int] = tokens[0, len(prompt) :].tolist()
    return found


def stand_for_quantised(model: Any, quantize: str) -> None:
    """Replace weights by what quantised ones stand for; ``"none"`` leaves them."""
    import torch

    from aoti_plugins import language

    if quantize == "none":
        return
    language.quantize(model, quantize, GROUP)
    for module in language.quantised_layers(model).values():
        weight = module.weight.dequantize()
        module.weight = torch.nn.Parameter(weight, requires_grad=False)
