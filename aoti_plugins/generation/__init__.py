"""Text from a program that ``aoti-plugins export`` made: needs tokenizers, and no torch."""

from aoti_plugins.generation.chat import Chat
from aoti_plugins.generation.chat_template import ChatTemplate, chat_template_of
from aoti_plugins.generation.generator import Statistics, TextGenerator
from aoti_plugins.generation.sampling import Sampling
from aoti_plugins.generation.tokenizer import read_tokenizer, tokenizer_digest, tokenizer_of

__all__ = [
    "Chat",
    "ChatTemplate",
    "Sampling",
    "Statistics",
    "TextGenerator",
    "chat_template_of",
    "read_tokenizer",
    "tokenizer_digest",
    "tokenizer_of",
]
