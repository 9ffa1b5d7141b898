"""Questions that may be answered with no, which PyTorch would report as failures."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator

_LOGGERS = ("torch._inductor", "torch.fx", "torch._subclasses")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Neither log nor warn: a question that fails is an answer, not something to tell the user."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [log.level for log in loggers]
    try:
        for log in loggers:
            log.setLevel(logging.CRITICAL + 1)  # Inductor calls a failed lowering critical
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for log, level in zip(loggers, before, strict=True):
            log.setLevel(level)
