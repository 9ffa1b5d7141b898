"""Processors for threads of a lowering."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """How many this process may use, where the system says so."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
