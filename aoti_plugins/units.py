"""Numbers as people read them."""

from __future__ import annotations


def seconds_text(seconds: float) -> str:
    """Write a time with a unit that leaves digits before the point."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.1f} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.2f} ms"
    return f"{seconds:.2f} s"
