"""Helpers of the end-to-end tests: look into programs, change them, run code in fresh processes."""

from __future__ import annotations

import subprocess
import sys
import textwrap
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


@pytest.fixture
def run_python() -> Callable[..., str]:
    """Run a script in a fresh interpreter and return what it printed; fails if it fails."""

    def run(
        script: str, *arguments: object, prefix: tuple[str, ...] = (), **environment: str
    ) -> str:
        import os

        done = subprocess.run(
            [*prefix, sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    return run
