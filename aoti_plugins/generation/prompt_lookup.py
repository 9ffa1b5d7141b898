"""Guesses how a text goes on, from the text itself; no second model is needed.

Answers repeat much of their prompts and of themselves: names, code, lists. So the guess is what
came after the last place with the same tokens (Saxena, "Prompt Lookup Decoding", 2023).
"""

from __future__ import annotations

from collections.abc import Sequence

_LONGEST, _SHORTEST = 3, 2  # tokens that have to be the same


class PromptLookup:
    """Guesses for one text that grows.

    Args:
        most: tokens of a guess. It has fewer after guesses that were wrong.
    """

    def __init__(self, most: int) -> None:
        self._most = self._width = most
        self._count = 0
        self._begins: dict[tuple[int, ...], int] = {}

    def guess(self, tokens: Sequence[int], most: int) -> list[int]:
        """Guess the next tokens; none where the last ones were not there before.

        Args:
            tokens: of the call before, and more.
            most: so many tokens at most.
        """
        self._take_in(tokens)
        for length in range(_LONGEST, _SHORTEST - 1, -1):
            begin = self._begins.get(tuple(tokens[-length:]))
            if begin is not None:
                period = len(tokens) - begin  # from there on the text may repeat itself
                count = min(self._width, most)
                return [tokens[begin + index % period] for index in range(count)]
        return []

    def learn(self, accepted: int) -> None:
        """Say how many tokens of the last guess were right."""
        self._width = min(self._most, 2 * accepted + 1)

    def _take_in(self, tokens: Sequence[int]) -> None:
        for end in range(max(self._count, _SHORTEST), len(tokens)):
            for length in range(_SHORTEST, min(_LONGEST, end) + 1):
                self._begins[tuple(tokens[end - length : end])] = end
        self._count = len(tokens)
