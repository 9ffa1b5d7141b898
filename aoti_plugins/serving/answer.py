"""One answer of a server, a token at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from aoti_plugins.generation import Sampling, Statistics, TextGenerator
from aoti_plugins.generation.text_stream import TextStream

PROMPT_STEP = 256
"""The most tokens of a prompt that a step reads."""


@dataclass(frozen=True)
class AnswerOptions:
    """How an answer is generated.

    Attributes:
        sampling: how tokens are chosen.
        max_new_tokens: the most tokens of the answer; ``None`` for what fits.
        stop: strings that end the answer; they are not part of it.
    """

    sampling: Sampling = field(default_factory=Sampling)
    max_new_tokens: int | None = None
    stop: Sequence[str] = ()


class Answer:
    """An answer that is generated in steps, so that others can have theirs between.

    Args:
        prompt: token numbers.
        options: how it is generated.

    Attributes:
        tokens: what was generated so far, without the token that ends an answer.
        is_trimmed: whether a stop string ended it, so that its text is less than its tokens.
    """

    def __init__(self, prompt: Sequence[int], options: AnswerOptions) -> None:
        self.prompt = prompt
        self.tokens: list[int] = []
        self.is_trimmed = False
        self._options = options
        self._found = Statistics()
        self._cached_tokens = 0
        self._read_s = 0.0

    def steps(self, generator: TextGenerator) -> Iterator[str]:
        """Generate it; gives the text that each step made certain, which is often none.

        A step is a token, or a part of the prompt.

        Args:
            generator: whose cache it uses.

        Raises:
            ProgramError: the prompt has no tokens, or leaves no room for an answer.
        """
        yield from self._read(generator)
        options, text = self._options, TextStream(generator.tokenizer, self._options.stop)
        for token in generator.tokens(self.prompt, options.sampling, options.max_new_tokens):
            self._found = generator.statistics
            if self._found.reason != "end":
                self.tokens.append(token)
            yield text.push(token)
            if text.stopped:
                break
        rest = text.flush()
        self.is_trimmed = text.stopped
        yield rest

    def _read(self, generator: TextGenerator) -> Iterator[str]:
        """Read all of the prompt but what the first token's step reads."""
        start = time.perf_counter()
        self._cached_tokens = generator.reusable(self.prompt)
        for _ in generator.read(self.prompt, PROMPT_STEP):
            yield ""
        self._read_s = time.perf_counter() - start

    @property
    def statistics(self) -> Statistics:
        """What it took so far, with the time of others' steps between."""
        return replace(
            self._found,
            prompt_tokens=len(self.prompt),
            cached_tokens=self._cached_tokens,
            first_token_s=self._found.first_token_s + self._read_s,
            seconds=self._found.seconds + self._read_s,
        )

    def report(self) -> dict[str, Any]:
        """What it took, by the names that ExecuTorch's server has for it."""
        found = self.statistics
        return {
            "prompt_tokens": found.prompt_tokens,
            "completion_tokens": len(self.tokens),
            "finish_reason": self.finish_reason,
            "reused_prompt_tokens": found.cached_tokens,
            "prefilled_prompt_tokens": found.prompt_tokens - found.cached_tokens,
            "prefill_ms": 1e3 * found.first_token_s,
            "decode_ms": 1e3 * (found.seconds - found.first_token_s),
            "total_ms": 1e3 * found.seconds,
            "decode_tok_s": found.tokens_per_s,
        }

    @property
    def finish_reason(self) -> str:
        """``"stop"`` or ``"length"``, as OpenAI's protocol has it."""
        return "stop" if self.is_trimmed or self._found.reason == "end" else "length"

    @property
    def resumable_tokens(self) -> list[int]:
        """The tokens that stand for the text; none where the text is less than they are."""
        return [] if self.is_trimmed else self.tokens


def prompt_tokens(
    tokenizer: Any, text: str | None, segments: Sequence[Mapping[str, Any]] | None = None
) -> list[int]:
    """The tokens of a prompt that a chat template made; the tokenizer adds none.

    Args:
        tokenizer: of the package tokenizers.
        text: the prompt, unless it is in segments.
        segments: its parts, each with ``text`` or with tokens, ``ids``.
    """
    tokens: list[int] = []
    parts: Sequence[Mapping[str, Any]] = segments if segments is not None else [{"text": text}]
    for one in parts:
        if "ids" in one:
            tokens += one["ids"]
        else:
            tokens += tokenizer.encode(one["text"], add_special_tokens=False).ids
    return tokens
