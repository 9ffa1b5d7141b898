"""A conversation with a language model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aoti_plugins.generation.chat_template import ChatTemplate
from aoti_plugins.generation.generator import TextGenerator


class Chat:
    """Questions and answers, of which the generator's cache holds what was said.

    Args:
        generator: of the model.
        template: of its checkpoint.
        system: what the model is told first.

    Attributes:
        messages: what was said, each with ``role`` and ``content``.

    Example:
        >>> chat = Chat(generator, ChatTemplate.read(path))          # doctest: +SKIP
        >>> print("".join(chat.reply("Good morning")))               # doctest: +SKIP
    """

    def __init__(
        self, generator: TextGenerator, template: ChatTemplate, system: str | None = None
    ) -> None:
        self._generator = generator
        self._template = template
        self._system = system
        self.messages: list[dict[str, str]] = []
        self.clear()

    def clear(self) -> None:
        """Forget what was said, but for what the model is told first."""
        told = [] if self._system is None else [{"role": "system", "content": self._system}]
        self.messages = list(told)

    def reply(self, text: str, **options: Any) -> Iterator[str]:
        """Answer, in pieces.

        Both are remembered when the answer ends, also where its reader stops before its end. What
        cannot be answered is not remembered.

        Args:
            text: what the user says.
            options: as for ``TextGenerator.stream``.

        Raises:
            CheckpointError: the template refuses the conversation.
            ProgramError: it leaves no room for an answer.
        """
        said = [*self.messages, {"role": "user", "content": text}]
        prompt = self._template.render(said)
        pieces = self._generator.stream(prompt, special_tokens=False, **options)
        return self._remembered(said, pieces)

    def _remembered(self, said: list[dict[str, str]], pieces: Iterator[str]) -> Iterator[str]:
        answer: list[str] = []
        try:
            for piece in pieces:
                answer.append(piece)
                yield piece
        except GeneratorExit:
            self._remember(said, answer)
            raise
        self._remember(said, answer)

    def _remember(self, said: list[dict[str, str]], answer: list[str]) -> None:
        self.messages = [*said, {"role": "assistant", "content": "".join(answer)}]
