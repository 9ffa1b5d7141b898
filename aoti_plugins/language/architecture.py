"""Whether a model can be exported with its cache as state, found out from its configuration."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aoti_plugins.errors import CheckpointError
from aoti_plugins.language.recurrent import RECURRENT_KINDS, is_recurrent
from aoti_plugins.language.speech.kinds import SPEECH_KINDS, is_speech


def check_architecture(path: Path, config: Any) -> None:
    """Refuse what cannot be exported.

    Args:
        path: of the configuration, for messages.
        config: of transformers.

    Raises:
        CheckpointError: says what kind of model it is, and which of its kind can be exported.
    """
    reason = _reason(config)
    if reason:
        raise CheckpointError(f"{path}: {reason}")


def positions(config: Any) -> int:
    """The most tokens that a model was made for, as far as a cache can hold them.

    From a number of tokens on, longrope turns all keys by other angles, also those that a cache
    holds; such a model ends there.
    """
    if is_recurrent(config):
        return 2**31 - 1  # a state has no length
    if is_speech(config):
        return int(config.max_target_positions)
    changes = [
        parameters["original_max_position_embeddings"]
        for parameters in _rope(config)
        if parameters.get("rope_type") == "longrope"
    ]
    most = getattr(config, "max_position_embeddings", 0) or 2048
    return int(min([most, *changes]))


def _reason(config: Any) -> str:
    """Why a model cannot be exported; empty if it can."""
    if is_speech(config):
        return ""
    return _no_text(config) or ("" if is_recurrent(config) else _no_static_cache(config))


def _no_text(config: Any) -> str:
    """Why a model writes no text, or not from text alone."""
    from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

    kind = config.model_type
    if config.is_encoder_decoder:
        known = " and ".join(SPEECH_KINDS)
        return f"{kind!r} is an encoder with a decoder; of such models only {known} can be exported"
    if type(config) not in AutoModelForCausalLM._model_mapping:
        return f"transformers has no model for {kind!r} that writes text"
    fills_gaps = type(config) in AutoModelForMaskedLM._model_mapping
    if fills_gaps and not getattr(config, "is_decoder", False):
        return f"{kind!r} is an encoder, which writes no text; only decoders can be exported"
    if not hasattr(config, "vocab_size"):
        return f"{kind!r} takes more than text; export the language model that is in it"
    return ""


def _no_static_cache(config: Any) -> str:
    """Why a model has no cache of keys and values alone, of which all sizes are known."""
    from transformers import AutoModelForCausalLM

    kind = config.model_type
    model = AutoModelForCausalLM._model_mapping[type(config)]
    others = [] if model._is_stateful else _other_layers(config)
    if model._is_stateful or others:
        kept = f" ({', '.join(others)})" if others else ""
        known = " and ".join(RECURRENT_KINDS)
        return (
            f"not every layer of {kind!r} keeps a text as one pair of keys and values{kept}; of "
            f"such models only {known} can be exported"
        )
    if not getattr(model, "_can_compile_fullgraph", False):
        return (
            f"transformers has no static key and value cache for {kind!r}, so it cannot be "
            "exported with its cache as state"
        )
    if not getattr(model, "_supports_sdpa", False):
        return (
            f"transformers has no scaled_dot_product_attention for {kind!r}; only that is exported"
        )
    if any("dynamic" in parameters.get("rope_type", "") for parameters in _rope(config)):
        return (
            f"{kind!r} turns its keys by angles that depend on the length of the text "
            "(rope_type 'dynamic'), which a cache cannot hold"
        )
    return ""


def _other_layers(config: Any) -> list[str]:
    """Names of transformers' cache layers that hold anything but one pair of keys and values."""
    from transformers import StaticCache
    from transformers.cache_utils import StaticLayer, StaticSlidingWindowLayer

    try:
        layers = StaticCache(config=config, max_cache_len=1).layers
    except (AttributeError, KeyError, ValueError, TypeError):
        return []  # no static cache at all
    known = (StaticLayer, StaticSlidingWindowLayer)
    return sorted({type(layer).__name__ for layer in layers if type(layer) not in known})


def _rope(config: Any) -> Iterator[dict[str, Any]]:
    """Parameters of rotary positions: one set, or one for each kind of layers."""
    found = getattr(config, "rope_parameters", None) or {}
    for parameters in [found] if "rope_type" in found else found.values():
        if isinstance(parameters, dict):
            yield parameters
