"""Guesses how a text goes on with a second, smaller model (a draft model).

The model checks its guesses, so they decide how many tokens a call gives, and nothing else
(Leviathan et al., "Fast Inference from Transformers via Speculative Decoding", 2023).
"""

from __future__ import annotations

from collections.abc import Sequence

from aoti_plugins.generation.cached_model import CachedModel


class DraftGuesses:
    """Guesses for one text that grows.

    Args:
        model: the draft model; its cache is for this text alone.
        vocabulary: tokens that it knows.
        most: tokens of a guess. It has fewer after guesses that were wrong.
    """

    def __init__(self, model: CachedModel, vocabulary: int, most: int) -> None:
        self._model = model
        self._vocabulary = vocabulary
        self._most = self._width = most

    def guess(self, tokens: Sequence[int], most: int) -> list[int]:
        """Guess the next tokens: the likeliest ones of the draft model.

        Args:
            tokens: of the text.
            most: so many tokens at most.

        Returns:
            None where the text has a token that the draft model does not know.
        """
        text = list(tokens)
        if max(text) >= self._vocabulary:
            return []
        for _ in range(min(self._width, most)):
            logits = self._model.read(text, self._model.reusable(text))
            text.append(int(logits.argmax()))
        return text[len(tokens) :]

    def learn(self, accepted: int) -> None:
        """Say how many tokens of the last guess were right."""
        self._width = min(self._most, 2 * accepted + 1)
