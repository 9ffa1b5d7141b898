"""The GPU that attention kernels are configured for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True)
class AttentionTarget:
    """What the choice of a configuration asks of a GPU.

    Attributes:
        capability: compute capability, (major, minor).
        multiprocessors: streaming multiprocessors.
        shared_memory: bytes that one block can get, after opting in.
    """

    capability: tuple[int, int]
    multiprocessors: int
    shared_memory: int


# Shared memory is the smallest of capability 8.x, so that the code runs on every GPU from there on.
DEFAULT_TARGET = AttentionTarget(capability=(8, 0), multiprocessors=108, shared_memory=101376)

_current: ContextVar[AttentionTarget] = ContextVar("attention_target", default=DEFAULT_TARGET)


@contextlib.contextmanager
def attention_target(target: AttentionTarget) -> Iterator[None]:
    """Configure attention for a GPU: whatever is traced or run inside uses kernels made for it.

    Args:
        target: the GPU; outside any such context it is ``DEFAULT_TARGET``.
    """
    token = _current.set(target)
    try:
        yield
    finally:
        _current.reset(token)


def current_target() -> AttentionTarget:
    """The GPU of the innermost ``attention_target``."""
    return _current.get()
