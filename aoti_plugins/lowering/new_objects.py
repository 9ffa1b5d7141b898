"""Look for garbage among the objects that a lowering makes, not among all that the process has.

PyTorch and what it imports are more than a million objects. A lowering makes so many new ones that
Python looks through all of them again and again, which took an eighth of the time.
"""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator

# How many are made from one collection to the next, at least; by itself Python takes hundreds.
_NEW_OBJECTS = 10_000

_lock = threading.Lock()
_depth = 0
_is_ours = False
_threshold = gc.get_threshold()


@contextlib.contextmanager
def only_new_objects() -> Iterator[None]:
    """Leave what is there out of garbage collection, for the block.

    Blocks may be inside each other, and in several threads: the last that ends puts all back. Where
    the process has left objects out by itself, nothing changes.
    """
    global _depth, _is_ours, _threshold
    is_counted = False
    try:
        with _lock:
            _depth += 1
            is_counted = True
            if _depth == 1 and gc.isenabled() and not gc.get_freeze_count():
                _is_ours = True
                _threshold = first, *rest = gc.get_threshold()
                gc.freeze()
                gc.set_threshold(max(first, _NEW_OBJECTS), *rest)
        yield
    finally:
        with _lock:
            _depth -= is_counted
            if not _depth and _is_ours:
                _is_ours = False
                gc.set_threshold(*_threshold)
                gc.unfreeze()
