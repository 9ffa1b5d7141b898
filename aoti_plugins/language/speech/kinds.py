"""Which models write down speech."""

from __future__ import annotations

from typing import Any

SPEECH_KINDS = ("whisper",)
"""Model types of transformers that ``SpeechModel`` knows."""


def is_speech(config: Any) -> bool:
    """Whether a model of this configuration is exported by ``SpeechModel``."""
    return config.model_type in SPEECH_KINDS
