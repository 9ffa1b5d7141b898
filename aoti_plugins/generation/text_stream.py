"""Tokens to text, piece by piece."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_UNFINISHED = "\N{REPLACEMENT CHARACTER}"


class TextStream:
    """Gives text as soon as it is certain.

    A character may be split over tokens, and a stop string too; what may become either is held
    back.

    Args:
        tokenizer: of the package tokenizers.
        stop: strings that end the text; they are not part of it.
    """

    def __init__(self, tokenizer: Any, stop: Sequence[str] = ()) -> None:
        self._tokenizer = tokenizer
        self._stop = [one for one in stop if one]
        self._tokens: list[int] = []
        self._begin = 0  # tokens from here on are decoded; those before are certain
        self._decoded = 0  # tokens whose text was taken
        self._held = ""
        self.stopped = False
        """Whether a stop string was found."""

    def push(self, token: int) -> str:
        """Take a token; returns the text that became certain, often none."""
        self._tokens.append(token)
        new = self._new()
        if not new or new.endswith(_UNFINISHED):
            return ""
        self._begin, self._decoded = self._decoded, len(self._tokens)
        return self._release(new)

    def flush(self) -> str:
        """The rest, once no more tokens come; halves of characters as replacement characters."""
        if self.stopped:
            return ""
        released = self._release(self._new())
        rest, self._held = ("" if self.stopped else self._held), ""
        return released + rest

    def _new(self) -> str:
        """The text of the tokens whose text was not taken."""
        known = self._decode(self._tokens[self._begin : self._decoded])
        return self._decode(self._tokens[self._begin :])[len(known) :]

    def _decode(self, tokens: list[int]) -> str:
        return str(self._tokenizer.decode(tokens, skip_special_tokens=True))

    def _release(self, new: str) -> str:
        text = self._held + new
        places = [place for one in self._stop if (place := text.find(one)) >= 0]
        if places:
            self.stopped, self._held = True, ""
            return text[: min(places)]
        keep = max((_overlap(text, one) for one in self._stop), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]


def _overlap(text: str, stop: str) -> int:
    """How many of the last characters of a text a stop string begins with."""
    longest = min(len(text), len(stop) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(stop[:n])), 0)
