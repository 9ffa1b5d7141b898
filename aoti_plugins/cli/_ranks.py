"""What commands do in a process that is one of several ranks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from aoti_plugins.generation import follow, is_for_ranks
from aoti_plugins.runtime import Program, current_place


def has_followed(program: Path, data_files: Sequence[Path]) -> bool:
    """Follow rank 0 to the end of what it generates, if this is another rank of such a program.

    Args:
        program: a language model.
        data_files: what the user gave.

    Returns:
        Whether it did, and nothing is left to do.
    """
    rank, _ = current_place()
    if rank == 0:
        return False
    with Program(program, data_files=data_files) as loaded:
        if not is_for_ranks(loaded):
            return False
    follow(program, data_files=data_files)
    return True
