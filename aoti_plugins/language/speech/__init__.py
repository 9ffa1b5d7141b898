"""Encoders that hear, with decoders that write down what was said: Whisper."""

from aoti_plugins.language.speech.kinds import is_speech
from aoti_plugins.language.speech.preprocessor import read_preprocessor
from aoti_plugins.language.speech.speech_model import SpeechDecoder, SpeechEncoder, SpeechModel
from aoti_plugins.language.speech.start_tokens import speech_metadata

__all__ = [
    "SpeechDecoder",
    "SpeechEncoder",
    "SpeechModel",
    "is_speech",
    "read_preprocessor",
    "speech_metadata",
]
