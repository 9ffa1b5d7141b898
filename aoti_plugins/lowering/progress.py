"""Say what a lowering is doing: stages with times, to the ``aoti_progress`` hook and to the log."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

from aoti_plugins.plugin_system.manager import get_manager
from aoti_plugins.types import ProgressEvent

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Place:
    """Which partition is being lowered."""

    device: str
    method: str
    partition: int
    partitions: int

    def __str__(self) -> str:
        which = f"partition {self.partition + 1} of {self.partitions}"
        return f"method {self.method!r}, {which} ({self.device})"


_place: ContextVar[Place | None] = ContextVar("aoti_plugins_place", default=None)


@contextlib.contextmanager
def at(place: Place) -> Iterator[None]:
    """Stages inside the block belong to this partition."""
    token = _place.set(place)
    try:
        yield
    finally:
        _place.reset(token)


def current_place(device: str, method: str) -> Place:
    """The partition being lowered; a single one where nothing else was said."""
    return _place.get() or Place(device, method, 0, 1)


@contextlib.contextmanager
def stage(name: str, place: Place, detail: str = "") -> Iterator[None]:
    """Report the start and the end, or the failure, of one stage."""
    where = (place.device, place.method, place.partition, place.partitions)
    _report(ProgressEvent(name, "start", *where, detail=detail))
    start = time.perf_counter()
    status: Literal["end", "fail"] = "fail"
    try:
        yield
        status = "end"
    finally:
        seconds = time.perf_counter() - start
        _report(ProgressEvent(name, status, *where, seconds=seconds, detail=detail))


def _report(event: ProgressEvent) -> None:
    logger.debug("%s", event)
    get_manager().progress(event)
