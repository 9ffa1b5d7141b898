"""Compile the kernels of a graph beside each other.

Inductor compiles ahead of time in worker processes, which would look for a GPU, or one kernel after
the other as its autotuning code makes them. Here a kernel's candidates are compiled by a thread as
soon as it is made, and who first calls the kernel waits for them. Triton's passes and the assembler
leave Python to the others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any

from aoti_plugins.lowering.artifacts.compiler import stopped_together


class CompiledBeside:
    """The kernels that are being compiled, by their ``CachingAutotuner``.

    Args:
        pool: whose threads compile.
    """

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self._begun: dict[int, tuple[Any, Future[None]]] = {}

    def begin(self, tuner: Any, compile_candidates: Callable[[], None]) -> None:
        """Let a thread compile a kernel's candidates; nobody else changes ``tuner`` meanwhile."""
        begun = self._pool.submit(copy_context().run, compile_candidates)
        self._begun[id(tuner)] = tuner, begun  # the tuner is kept, so that the number stays its own

    def is_begun(self, tuner: Any) -> bool:
        """Whether a kernel was given to ``begin``."""
        return id(tuner) in self._begun

    def wait(self, tuner: Any) -> None:
        """Wait for a kernel; raises what compiling it raised."""
        self._begun[id(tuner)][1].result()


@contextmanager
def compiled_beside() -> Iterator[CompiledBeside]:
    """Threads for the block, one for each processor.

    What none has begun by its end is dropped; if it is left early, assemblers are stopped.
    """
    pool = ThreadPoolExecutor(_num_processors(), thread_name_prefix="triton")
    try:
        with stopped_together():
            yield CompiledBeside(pool)
    finally:
        pool.shutdown(cancel_futures=True)


def _num_processors() -> int:
    """How many this process may use, where the system says so."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
