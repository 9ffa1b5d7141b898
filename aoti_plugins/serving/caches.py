"""The caches that answers share: a limited number, each for one answer at a time."""

from __future__ import annotations

from collections.abc import Sequence

from aoti_plugins.generation import TextGenerator
from aoti_plugins.generation.cached_model import common_tokens


class Cache:
    """A session of a generator, made when it is used first."""

    def __init__(self, generator: TextGenerator, session: TextGenerator | None = None) -> None:
        self._generator = generator
        self._session = session

    def session(self) -> TextGenerator:
        """The session; making it takes memory, and so may fail.

        Raises:
            ProgramError: there is no memory for it.
        """
        if self._session is None:
            self._session = self._generator.session()
        return self._session

    def fits(self, prompt: Sequence[int], adapter: str | None = None) -> int:
        """How well a prompt fits: tokens that need not be read, less those that would be lost."""
        if self._session is None:
            return 0
        held = self._session.tokens_in_cache
        if self._session.adapter != adapter:
            return -len(held)
        return 2 * common_tokens(held, prompt) - len(held)


class Caches:
    """Lends each answer the cache that fits its prompt best.

    A conversation so finds the cache that holds what was said in it. One that is new gets a cache
    that holds nothing, or else the one that was not used for longest.

    Args:
        generator: whose own cache is the first.
        most: how many there are at most, 1 or more.
    """

    def __init__(self, generator: TextGenerator, most: int) -> None:
        others = (Cache(generator) for _ in range(most - 1))
        self._idle = [Cache(generator, generator), *others]

    def take(self, prompt: Sequence[int], adapter: str | None = None) -> Cache:
        """Borrow a cache; there has to be one that is not lent.

        Args:
            prompt: token numbers.
            adapter: the name of the one that the answer is generated with.
        """
        best = max(self._idle, key=lambda one: one.fits(prompt, adapter))
        self._idle.remove(best)
        return best

    def give_back(self, cache: Cache) -> None:
        """End the loan."""
        self._idle.append(cache)
