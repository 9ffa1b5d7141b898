"""Text from a program that ``aoti-plugins export`` made: needs tokenizers, and no torch."""

from aoti_plugins.generation.adapter import AdapterLayout, read_adapter
from aoti_plugins.generation.chat import Chat
from aoti_plugins.generation.chat_template import ChatTemplate, chat_template_of
from aoti_plugins.generation.generator import Statistics, TextGenerator
from aoti_plugins.generation.led_program import follow, is_for_ranks
from aoti_plugins.generation.sampling import Sampling
from aoti_plugins.generation.tokenizer import read_tokenizer, tokenizer_digest, tokenizer_of
from aoti_plugins.generation.transcriber import Transcriber, TranscriptionStatistics
from aoti_plugins.generation.wave_file import read_wave

__all__ = [
    "AdapterLayout",
    "Chat",
    "ChatTemplate",
    "Sampling",
    "Statistics",
    "TextGenerator",
    "Transcriber",
    "TranscriptionStatistics",
    "chat_template_of",
    "follow",
    "is_for_ranks",
    "read_adapter",
    "read_tokenizer",
    "read_wave",
    "tokenizer_digest",
    "tokenizer_of",
]
