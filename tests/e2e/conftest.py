"""Helpers of the end-to-end tests: look into programs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def blobs_of() -> Callable[[Path], list[bytes]]:
    """``blobs_of(path)`` are the shared objects in a program."""
    from executorch.exir._serialize._program import deserialize_pte_binary

    def blobs(path: Path) -> list[bytes]:
        named = deserialize_pte_binary(path.read_bytes()).named_data
        assert named is not None
        buffers = [bytes(named.buffers[e.buffer_index]) for e in named.pte_data.values()]
        return [data for data in buffers if data.startswith(b"\x7fELF")]

    return blobs
