"""Tokens of what was said in a piece of audio."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from aoti_plugins.errors import ProgramError
from aoti_plugins.generation.cached_model import constant, hears
from aoti_plugins.generation.generator import TextGenerator
from aoti_plugins.generation.sampling import Sampling
from aoti_plugins.generation.text_stream import TextStream

_NONE = -1  # must match aoti_plugins/language/speech/start_tokens.py


class SpeechWriter(TextGenerator):
    """A generator of a program for speech: ``hear`` says what its texts are about.

    Its constructor and ``session`` are those of ``TextGenerator``.

    Attributes:
        sample_rate: samples of audio in a second.
        max_samples: the most that ``hear`` takes.
        languages: tokens of languages by name, such as ``en``; empty where the model has but one.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.sample_rate = self._number("sample_rate")
        self.max_samples = self._number("max_samples")
        self.languages = {self._name(token): token for token in self._tokens_of("language_ids")}
        self._suppressed = self._tokens_of("suppressed_ids")
        self._first_suppressed = self._tokens_of("first_suppressed_ids")
        self._start = self._number("get_decoder_start_id")
        self._no_timestamps = self._number("get_no_timestamps_id")

    def hear(self, samples: Any) -> None:
        """Take in audio, ``[n]``, float32, n at most ``max_samples``."""
        self._model.hear(samples)

    def language(self, name: str | None) -> int | None:
        """The token of a language, by default the program's; ``None`` where it is to be heard.

        Raises:
            ProgramError: the model has no such language.
        """
        if name is None:
            default = self._number("get_language_id")
            return None if default == _NONE else default
        if name not in self.languages:
            known = ", ".join(sorted(self.languages)) or "no choice: the model is for one language"
            raise ProgramError(f"the {self._program} knows no language {name!r}; it has {known}")
        return self.languages[name]

    def heard_language(self) -> int | None:
        """The token of the likeliest language of what was heard; ``None`` if there is one only."""
        tokens = list(self.languages.values())
        if not tokens:
            return None
        logits = self._model.read([self._start], 0)
        return tokens[int(np.argmax(logits[tokens]))]

    def name_of(self, language: int | None) -> str:
        """The name of a language's token; empty for none."""
        return next((name for name, one in self.languages.items() if one == language), "")

    def task(self, name: str | None) -> int:
        """The token of ``"transcribe"`` or ``"translate"``, by default the program's.

        Raises:
            ProgramError: the model has no such task.
        """
        if name not in (None, "transcribe", "translate"):
            raise ProgramError(f"the task is {name!r}, expected 'transcribe' or 'translate'")
        found = self._number(f"get_{name or 'task'}_id")
        if found == _NONE and name == "translate":
            raise ProgramError(f"the {self._program} cannot translate: it is for one language")
        return found

    def prompt(self, language: int | None, task: int) -> list[int]:
        """The tokens that a text begins with."""
        tokens = (self._start, language, task, self._no_timestamps)
        return [token for token in tokens if token is not None and token != _NONE]

    def write(
        self, prompt: list[int], sampling: Sampling | None, most: int | None
    ) -> Iterator[str]:
        """Write down what was heard, in pieces, as ``stream`` does after a text."""
        tokens = self.tokens(prompt, sampling, most)
        texts = (token for token in tokens if self._is_text(token))
        return self._pieces(texts, TextStream(self.tokenizer))

    def _is_text(self, token: int) -> bool:
        """Whether a token may be part of the text; tokens of times come after all others."""
        return self._no_timestamps == _NONE or token <= self._no_timestamps

    def _choose(
        self, logits: Any, seen: list[int], sampling: Sampling, random: np.random.Generator
    ) -> int:
        logits = np.array(logits)
        logits[self._suppressed] = -np.inf
        if self.statistics.new_tokens == 0:
            logits[self._first_suppressed] = -np.inf
        return super()._choose(logits, seen, sampling, random)

    def _check_kind(self) -> None:
        if not hears(self._program):
            raise ProgramError(
                f"the {self._program} takes no audio; make one from a checkpoint of Whisper, or "
                "use aoti-plugins generate, or TextGenerator"
            )

    def _number(self, name: str) -> int:
        return int(constant(self._program, name)[0])

    def _tokens_of(self, name: str) -> list[int]:
        return [int(token) for token in constant(self._program, f"get_{name}")]

    def _name(self, token: int) -> str:
        return str(self.tokenizer.id_to_token(token) or token).strip("<|>")
