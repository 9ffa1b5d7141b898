"""What a program for speech says of itself: its audio, and the tokens that a text begins with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

NONE = -1
"""In place of a token that a model does not have."""


def speech_metadata(chosen: Any, vocabulary: int, preprocessor: Any) -> dict[str, Any]:
    """The constant methods that ``Transcriber`` asks for.

    A text begins with the decoder's start token, then a language, a task, and that there are no
    timestamps, where the model has such tokens. A model for one language has only the last one.

    Args:
        chosen: the model's ``GenerationConfig``.
        vocabulary: number of tokens.
        preprocessor: what ``read_preprocessor`` gave.
    """
    languages = getattr(chosen, "lang_to_id", None) or {}
    tasks = getattr(chosen, "task_to_id", None) or {} if languages else {}
    forced = dict(getattr(chosen, "forced_decoder_ids", None) or [])
    language = languages.get(_in_brackets(getattr(chosen, "language", None)), forced.get(1))
    task = tasks.get(getattr(chosen, "task", None), forced.get(2))
    transcribe, translate = (tasks.get(name, NONE) for name in ("transcribe", "translate"))
    return {
        "sample_rate": int(preprocessor.sampling_rate),
        "max_samples": int(preprocessor.n_samples),
        "get_decoder_start_id": chosen.decoder_start_token_id,
        "get_language_ids": sorted(languages.values()),
        "get_language_id": language if language in languages.values() else NONE,
        "get_transcribe_id": transcribe,
        "get_translate_id": translate,
        "get_task_id": task if task in tasks.values() else transcribe,
        "get_no_timestamps_id": getattr(chosen, "no_timestamps_token_id", None) or NONE,
        "get_suppressed_ids": _known(chosen.suppress_tokens, vocabulary),
        "get_first_suppressed_ids": _known(chosen.begin_suppress_tokens, vocabulary),
    }


def _in_brackets(language: str | None) -> str:
    """``<|en|>`` for ``en``; some checkpoints have the one, some the other."""
    return f"<|{(language or '').strip('<|>')}|>"


def _known(tokens: Iterable[int] | None, vocabulary: int) -> list[int]:
    return sorted({int(one) for one in tokens or () if 0 <= one < vocabulary})
