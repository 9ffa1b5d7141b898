"""Chat templates of checkpoints, and where export puts a program's."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aoti_plugins.errors import CheckpointError, needs_extra


def chat_template_of(program: Path) -> Path:
    """Where ``aoti-plugins export`` puts a program's chat template."""
    return program.with_suffix(".chat.json")


class ChatTemplate:
    """Turns messages into the text that a model was trained on.

    Templates are Jinja, as transformers has them, and run in its sandbox.

    Args:
        source: the template.
        tokens: texts of special tokens that it may use, ``bos_token`` and ``eos_token``.

    Raises:
        CheckpointError: the package jinja2 is missing, or the template is no template.
    """

    def __init__(self, source: str, tokens: Mapping[str, str] | None = None) -> None:
        with needs_extra("language", CheckpointError):
            import jinja2
            from jinja2.sandbox import ImmutableSandboxedEnvironment
        self._errors = jinja2.TemplateError
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.globals["raise_exception"] = self._refuse
        environment.filters["tojson"] = _to_json
        self._tokens = dict(tokens or {})
        try:
            self._template = environment.from_string(source)
        except self._errors as error:
            raise CheckpointError(f"the chat template is no template: {error}") from error

    @classmethod
    def read(cls, path: Path) -> ChatTemplate:
        """Read what export wrote (``.json``), or a file with nothing but a template.

        Raises:
            CheckpointError: the file is missing or damaged.
        """
        if not path.is_file():
            raise CheckpointError(
                f"there is no chat template {str(path)!r}; give one with --template, or use "
                "generate"
            )
        text = path.read_text(encoding="utf-8")
        if path.suffix != ".json":
            return cls(text)
        try:
            found = json.loads(text)
            return cls(found["template"], found["tokens"])
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{path}: not what export writes: {error!r}") from error

    def render(
        self, messages: Sequence[Mapping[str, Any]], variables: Mapping[str, Any] | None = None
    ) -> str:
        """The text of a conversation, up to where the model's answer begins.

        Args:
            messages: each with ``role`` (``"system"``, ``"user"``, ``"assistant"``) and
                ``content``.
            variables: more that the template may use, such as ``tools``.

        Raises:
            CheckpointError: the template refuses the messages.
        """
        given = {"messages": list(messages), "add_generation_prompt": True}
        try:
            return self._template.render({**(variables or {}), **self._tokens, **given})
        except (self._errors, TypeError) as error:
            raise CheckpointError(f"the chat template refuses the messages: {error}") from error

    def _refuse(self, message: str) -> None:
        raise self._errors(message)


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)
