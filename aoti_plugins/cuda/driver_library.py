"""NVIDIA's driver, as far as commands ask it something; programs do so by the runtime library."""

from __future__ import annotations

import ctypes


def open_driver() -> ctypes.CDLL | None:
    """The driver of this machine, not initialised; ``None`` where there is none."""
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
