"""Tiny language models in GGUF files, random, with weights of few bits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf_blocks import quantised
from tiny_checkpoints import CHAT_TEMPLATE

WORDS = ("He", "ll")
"""Tokens of more than a letter."""
BEGIN, END, END_OF_TURN, VOCABULARY = 258, 259, 260, 264
_PRINTABLE = 94  # ASCII from "!" to "~" comes first
_SIZES = {
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 128,
    "bos_token_id": BEGIN,
    "eos_token_id": END,
    "initializer_range": 0.1,
    "tie_word_embeddings": False,
}
_LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", {"rope_parameters": _LLAMA3}),
    "qwen2": ("Qwen2Config", {}),
    "qwen3": (
        "Qwen3Config",
        {
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "head_dim": 128,
            "tie_word_embeddings": True,
        },
    ),
    "gemma3": (
        "Gemma3TextConfig",
        {
            "sliding_window": 16,
            "num_hidden_layers": 6,
            "head_dim": 256,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "tie_word_embeddings": True,
        },
    ),
}
"""Classes of configurations, and what is not ``_SIZES`` in them."""
TYPES: dict[str, dict[str, str]] = {
    "llama": {"token_embd": "Q4_K", "output": "Q6_K", "attn_v": "Q6_K", "ffn_down": "Q6_K"},
    "qwen2": {"token_embd": "Q8_0", "output": "F16", "attn_k": "Q5_0", "ffn_up": "BF16"},
    "qwen3": {"token_embd": "Q6_K", "ffn_up": "Q5_K", "ffn_gate": "Q8_0", "attn_output": "Q4_0"},
    "gemma3": {"token_embd": "Q8_0"},
}
"""Types of matrices; others are Q4_K."""


def model_of(kind: str) -> Any:
    """A random model, whose greedy texts are ASCII and do not end."""
    import transformers

    name, changes = MODELS[kind]
    torch.manual_seed(0)
    config = getattr(transformers, name)(**{**_SIZES, **changes})
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():
        model.lm_head.weight[_PRINTABLE:] = 0
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(std=0.1)
    return model


def write_gguf(path: Path, kind: str, also: Callable[[Any], None] = lambda _: None) -> Path:
    """Write ``model_of(kind)``, and what else is to be told the writer; returns the path."""
    model, writer = model_of(kind), gguf.GGUFWriter(path, kind)
    also(writer)
    _write_sizes(writer, model.config)
    _write_tokenizer(writer)
    for name, tensor in tensors_of(kind, model).items():
        _write_tensor(writer, name, tensor, _type_of(kind, name, tensor))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _write_sizes(writer: Any, config: Any) -> None:
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    if writer.arch == "llama":
        writer.add_rope_dimension_count(config.head_dim)
    if getattr(config, "sliding_window", None):
        writer.add_sliding_window(config.sliding_window)


def _write_tokenizer(writer: Any) -> None:
    """A token for each byte, two words, and special ones."""
    from tokenizers import pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    special = ["<s>", "</s>", "<turn>"]
    unused = [f"[PAD{i}]" for i in range(END_OF_TURN + 1, VOCABULARY)]
    normal, control, none = gguf.TokenType.NORMAL, gguf.TokenType.CONTROL, gguf.TokenType.UNUSED
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list([*letters, *WORDS, *special, *unused])
    writer.add_token_types([normal] * 258 + [control] * 3 + [none] * 3)
    writer.add_token_merges([" ".join(word) for word in WORDS])
    writer.add_bos_token_id(BEGIN)
    writer.add_eos_token_id(END)
    writer.add_eot_token_id(END_OF_TURN)
    writer.add_chat_template(CHAT_TEMPLATE)


def tensors_of(kind: str, model: Any) -> dict[str, np.ndarray[Any, Any]]:
    """The model's weights as llama.cpp's converter has them."""
    arch = next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == kind)
    names = gguf.get_tensor_name_map(arch, model.config.num_hidden_layers)
    found = {}
    for name, parameter in model.named_parameters():
        stored = names.get_name(name, try_suffixes=(".weight", ".bias"))
        found[stored] = _converted(kind, stored, parameter.detach(), model.config).numpy()
    if kind == "llama":
        plain = 1 / 10000 ** (torch.arange(0, 64, 2) / 64)
        found["rope_freqs.weight"] = (plain / model.model.rotary_emb.inv_freq).numpy()
    return found


def _converted(kind: str, name: str, tensor: Any, config: Any) -> Any:
    """Queries and keys of Llama turn neighbours, and not halves; Gemma's norms are one more."""
    if kind == "gemma3" and name.endswith("norm.weight"):
        return tensor + 1
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    count = heads.get(name.split(".")[-2]) if kind == "llama" else None
    if count is None:
        return tensor
    return tensor.unflatten(0, (count, 2, -1)).transpose(1, 2).flatten(0, 2).contiguous()


def _type_of(kind: str, name: str, tensor: Any) -> str:
    return "F32" if tensor.ndim == 1 else TYPES[kind].get(name.split(".")[-2], "Q4_K")


def _write_tensor(writer: Any, name: str, tensor: Any, kind: str) -> None:
    of_type = gguf.GGMLQuantizationType[kind]
    data = quantised(tensor, kind) if kind.endswith("_K") else gguf.quantize(tensor, of_type)
    writer.add_tensor(name, data, raw_dtype=of_type)


def dequantised(path: Path, kind: str) -> Any:
    """The model of transformers, float32, with what the weights of a file stand for."""
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    model = model_of(kind)
    found = load_gguf_checkpoint(str(path), return_tensors=True, model_to_load=model)["tensors"]
    missing, unknown = model.load_state_dict(found, strict=False)
    assert not unknown
    assert set(missing) <= ({"lm_head.weight"} if model.config.tie_word_embeddings else set())
    return model
