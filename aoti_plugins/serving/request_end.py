"""What is done when a request ends, however it does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_calls: ContextVar[list[Callable[[], object]] | None] = ContextVar("_calls", default=None)


@contextmanager
def request() -> Iterator[None]:
    """The time of a request; tasks that are begun in it belong to it."""
    calls: list[Callable[[], object]] = []
    token = _calls.set(calls)
    try:
        yield
    finally:
        _calls.reset(token)
        for call in calls:
            call()


def when_request_ends(call: Callable[[], object]) -> None:
    """Have a function called when the request ends that this task belongs to, if any.

    A generator whose reader is cancelled ends when Python finds the time; what it holds may be
    needed before.
    """
    calls = _calls.get()
    if calls is not None:
        calls.append(call)
