"""Locks that are free in the child of a fork.

Only the thread that forks goes on in the child, so that a lock which another thread held would
never be given back there. The native side lets a fork wait until no program is being loaded or run,
so what the locks protect is whole.
"""

from __future__ import annotations

import os
import threading
import weakref

_locks: weakref.WeakSet[threading.Lock] = weakref.WeakSet()


def new_lock() -> threading.Lock:
    """A lock that nobody holds in the child of a fork."""
    lock = threading.Lock()
    _locks.add(lock)
    return lock


def _free_in_child() -> None:
    for lock in list(_locks):
        lock._at_fork_reinit()  # type: ignore[attr-defined]  # as the standard library's own locks


os.register_at_fork(after_in_child=_free_in_child)
