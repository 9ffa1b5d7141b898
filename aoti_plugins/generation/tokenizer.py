"""Tokenizers in the format of Hugging Face, and which one belongs to a program."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from aoti_plugins.errors import CheckpointError, needs_extra

_DIGEST_DIGITS = 15  # of 16: what fits an int64 with a sign


def read_tokenizer(path: Path) -> Any:
    """Read a ``tokenizer.json``.

    Raises:
        CheckpointError: the package tokenizers is missing, or the file is missing or damaged.
    """
    with needs_extra("language", CheckpointError):
        from tokenizers import Tokenizer
    if not path.is_file():
        raise CheckpointError(f"there is no tokenizer {str(path)!r}; give one with --tokenizer")
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the package raises nothing more special
        raise CheckpointError(f"{path}: not a tokenizer: {error}") from error


def tokenizer_of(program: Path) -> Path:
    """Where ``aoti-plugins export`` puts a program's tokenizer."""
    return program.with_suffix(".tokenizer.json")


def tokenizer_digest(path: Path) -> int:
    """What a program remembers of its tokenizer: the beginning of the file's SHA-256."""
    return int(hashlib.sha256(path.read_bytes()).hexdigest()[:_DIGEST_DIGITS], 16)
