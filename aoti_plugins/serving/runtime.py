"""What ExecuTorch's ServingChat generates with, here: a program in this process."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from aoti_plugins.generation import Sampling, TextGenerator
from aoti_plugins.serving.answer import Answer, AnswerOptions, prompt_tokens
from aoti_plugins.serving.caches import Cache, Caches
from aoti_plugins.serving.request_end import when_request_ends
from aoti_plugins.serving.turns import Turn, Turns


class TurnsRuntime:
    """Generates several answers in turns, each with a cache of its own.

    In place of ``SessionRuntime`` of ``executorch.examples.llm_server``, with its methods. All but
    ``close_worker`` are for the thread of the event loop. Answers are the model's own; those of one
    of its adapters are given by what ``with_adapter`` gives.

    Args:
        generator: of the model.
        max_sessions: how many answers are generated at once; others wait, first come, first served.
    """

    def __init__(self, generator: TextGenerator, max_sessions: int) -> None:
        self._generator = generator
        self._caches = Caches(generator, max_sessions)
        self._places = asyncio.Semaphore(max_sessions)
        self._turns = Turns()
        self._adapter: str | None = None

    def with_adapter(self, name: str) -> TurnsRuntime:
        """The same one, with the same caches and turns, for answers with an adapter."""
        other = copy.copy(self)
        other._adapter = name
        return other

    @property
    def healthy(self) -> bool:
        """Whether answers can begin."""
        return self._turns.healthy

    async def open(self, session_id: str) -> None:
        """Nothing: a conversation finds its cache by what that holds, and needs none kept."""

    reset = close = open

    def stop(self) -> bool:
        """Nothing: answers end at their stop strings by themselves."""
        return False

    async def generate_stream(
        self, session_id: str | None, prompt: Any, options: Any, stats: Any = None
    ) -> AsyncIterator[str]:
        """Generate an answer, in pieces; it ends early where its reader does.

        Args:
            session_id: of the conversation.
            prompt: ``PromptInput``, with ``text`` or ``segments``.
            options: ``GenerationOptions``.
            stats: ``GenStats`` to fill at the end.

        Raises:
            ProgramError: the program failed.
            ServingError: the server is ending.
        """
        tokens = prompt_tokens(self._generator.tokenizer, prompt.text, prompt.segments)
        answer = Answer(tokens, _options(options))
        await self._places.acquire()
        pieces: asyncio.Queue[str | Exception | None] = asyncio.Queue()
        turn = self._begin(answer, pieces)
        when_request_ends(turn.cancel)
        try:
            while (piece := await pieces.get()) is not None:
                if isinstance(piece, Exception):
                    raise piece
                yield piece
        finally:
            turn.cancel()
        if stats is not None:
            for name, value in answer.report().items():
                setattr(stats, name, value)
            stats.generated_token_ids = answer.resumable_tokens

    def close_worker(self, timeout: float = 0.0) -> bool:
        """End all answers; returns whether the model is free, within so many seconds."""
        return self._turns.close(timeout)

    def _begin(self, answer: Answer, pieces: asyncio.Queue[str | Exception | None]) -> Turn:
        """Let an answer have its turns; a place is taken for it."""
        cache = self._caches.take(answer.prompt, self._adapter)
        in_loop = partial(_call_in, asyncio.get_running_loop())

        def ended(error: Exception | None) -> None:
            self._caches.give_back(cache)
            self._places.release()
            pieces.put_nowait(error)

        turn = Turn(
            _steps(answer, cache, self._adapter),
            lambda text: in_loop(pieces.put_nowait, text),
            lambda error: in_loop(ended, error),
        )
        try:
            self._turns.begin(turn)
        except BaseException:
            self._caches.give_back(cache)
            self._places.release()
            raise
        return turn


def _call_in(
    loop: asyncio.AbstractEventLoop, function: Callable[..., object], *arguments: object
) -> None:
    """Call a function in the thread of a loop; nothing where that has ended."""
    with suppress(RuntimeError):  # closed: nobody is left to be told
        loop.call_soon_threadsafe(function, *arguments)


def _steps(answer: Answer, cache: Cache, adapter: str | None) -> Iterator[str]:
    session = cache.session()
    session.use_adapter(adapter)
    yield from answer.steps(session)


def _options(given: Any) -> AnswerOptions:
    """Options of ours; the server says 0 and -1 for what a request leaves out."""
    sampling = Sampling(
        temperature=given.temperature,
        top_p=given.top_p,
        top_k=given.top_k,
        seed=given.seed or None,
    )
    most = given.max_new_tokens if given.max_new_tokens > 0 else None
    return AnswerOptions(sampling, most, given.stop)
