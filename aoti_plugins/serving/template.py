"""A program's chat template and tokenizer, as ExecuTorch's ServingChat asks for them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from aoti_plugins.errors import CheckpointError
from aoti_plugins.generation import ChatTemplate
from aoti_plugins.serving.answer import prompt_tokens


class ServedTemplate:
    """Renders requests; in place of the server's own ``ChatTemplate``, which needs transformers.

    Special tokens are not part of answers, so there are no strings to look for in their text.

    Args:
        template: of the program.
        tokenizer: of the package tokenizers.
    """

    def __init__(self, template: ChatTemplate, tokenizer: Any) -> None:
        self._template = template
        self._tokenizer = tokenizer

    def render(
        self,
        messages: Sequence[Any],
        tools: Sequence[Mapping[str, Any]] | None = None,
        template_kwargs: Mapping[str, Any] | None = None,
    ) -> str:
        """The prompt of a conversation.

        Args:
            messages: ``ChatMessage``, each.
            tools: that the model may call, as JSON schemas.
            template_kwargs: more variables of the template.

        Raises:
            CheckpointError: the template refuses the messages, or they are not text.
        """
        plain = [_plain(one.model_dump(exclude_none=True)) for one in messages]
        return self._template.render(plain, {**(template_kwargs or {}), "tools": tools})

    def count_tokens(self, prompt: str) -> int:
        """How many tokens a rendered prompt has."""
        return len(prompt_tokens(self._tokenizer, prompt))

    def generation_preamble(self, template_kwargs: object = None, tools: object = None) -> str:
        """Nothing: a prompt's end is not taken for the beginning of an answer."""
        return ""

    def assistant_header(self) -> str:
        """Nothing is looked for in prompts."""
        return ""

    def turn_stop_sequences(self) -> list[str]:
        """No strings: the program knows the tokens that end an answer."""
        return []

    def special_tokens(self) -> list[str]:
        """None that are part of an answer's text."""
        return []


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    """A message as templates know it: content is text, arguments of calls are objects."""
    parts = message.get("content")
    if isinstance(parts, list):
        message["content"] = "".join(map(_text, parts))
    for call in message.get("tool_calls", ()):
        call["function"]["arguments"] = _arguments(call["function"].get("arguments"))
    return message


def _text(part: Mapping[str, Any]) -> str:
    text = part.get("text")
    if part.get("type") != "text" or not isinstance(text, str):
        raise CheckpointError(
            f"a part of a message has type {part.get('type')!r}; this model reads text"
        )
    return text


def _arguments(given: str | None) -> Any:
    """Arguments of a call, which clients send as JSON; what is none stays as it is."""
    try:
        return json.loads(given or "{}")
    except ValueError:
        return given
