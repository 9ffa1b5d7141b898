"""The configuration of the model in a GGUF file: what transformers reads, and what it does not."""

from __future__ import annotations

from typing import Any

from aoti_plugins.errors import CheckpointError
from aoti_plugins.language.gguf.file import GgufFile

ARCHITECTURES = {
    "gemma3": "gemma3_text",
    "llama": "llama",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
}
"""What can be exported, by llama.cpp's name, and transformers' name for it."""

_NEEDED = (
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "attention.head_count",
    "attention.layer_norm_rms_epsilon",
)
_HEAD = "output.weight"
_LAYERS_OF_GEMMA3_27B = 62
_END_TOKENS = ("eos_token_id", "eot_token_id", "eom_token_id")


def configuration_of(file: GgufFile) -> Any:
    """The configuration of transformers for the model in a file.

    Raises:
        CheckpointError: the model is of another kind than ``ARCHITECTURES``, the metadata lacks
            sizes, or its positions are scaled in a way that transformers does not read.
    """
    _check(file)
    config = _read(file)
    _scale_positions(file, config)
    if config.model_type == "gemma3_text":
        _scale_attention(config)
    return config


def end_tokens(file: GgufFile) -> list[int]:
    """The tokens that end an answer, of a text and of a turn."""
    found = [file.value(f"tokenizer.ggml.{name}") for name in _END_TOKENS]
    return list(dict.fromkeys(int(one) for one in found if one is not None))


def _check(file: GgufFile) -> None:
    kind = file.architecture
    if kind not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise CheckpointError(
            f"{file.path}: general.architecture is {kind!r}; of GGUF files {known} can be "
            "exported. Take the model's folder with safetensors"
        )
    missing = [key for key in _NEEDED if file.value(f"{kind}.{key}") is None]
    if missing:
        raise CheckpointError(
            f"{file.path}: the metadata lacks {', '.join(f'{kind}.{key}' for key in missing)}; "
            "convert the model again"
        )


def _read(file: GgufFile) -> Any:
    """What AutoConfig.from_pretrained makes of such a file, which would read all of it anew."""
    from transformers import AutoConfig

    values = {
        "tie_word_embeddings": _HEAD not in file.tensors,
        "vocab_size": file.count("tokenizer.ggml.tokens"),
        **_values(file, file.architecture),
        **_values(file, "tokenizer"),
    }
    try:
        return AutoConfig.for_model(ARCHITECTURES[file.architecture], **values)
    except Exception as error:  # each configuration checks itself in its own way
        raise CheckpointError(
            f"{file.path}: no configuration that transformers knows: {error}"
        ) from error


def _values(file: GgufFile, prefix: str) -> dict[str, Any]:
    """What a file says, by transformers' names."""
    from transformers.integrations import GGUF_CONFIG_MAPPING

    names = GGUF_CONFIG_MAPPING[prefix]
    found = {name: file.value(f"{prefix}.{key}") for key, name in names.items() if name}
    return {name: value for name, value in found.items() if value is not None}


def _scale_positions(file: GgufFile, config: Any) -> None:
    """Positions that are divided by a number, of which transformers reads nothing."""
    kind = file.value(f"{file.architecture}.rope.scaling.type", "none")
    if kind == "none":
        return
    if kind != "linear":
        raise CheckpointError(
            f"{file.path}: positions are scaled by {kind!r}, which transformers does not read from "
            "GGUF files; take the model's folder with safetensors"
        )
    factor = float(file.value(f"{file.architecture}.rope.scaling.factor", 1.0))
    found = config.rope_parameters
    # Where layers differ, those with a sliding window keep their positions.
    found.get("full_attention", found).update(rope_type="linear", factor=factor)


def _scale_attention(config: Any) -> None:
    """What products of queries and keys of Gemma 3 are divided by, which files do not say.

    The root of a head's size, and in the model of 27 B, which has the most layers, of the width of
    the text for each head. llama.cpp tells them apart in the same way.
    """
    is_largest = config.num_hidden_layers == _LAYERS_OF_GEMMA3_27B
    wide = config.hidden_size // config.num_attention_heads
    config.query_pre_attn_scalar = wide if is_largest else config.head_dim
