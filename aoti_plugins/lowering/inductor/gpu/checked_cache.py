"""Triton's cache with a digest beside each file: machine code that was damaged is made anew.

Triton names this class itself, from the environment (``own_folders``); ``FileCacheManager`` is what
it uses otherwise. Tested with triton 3.6 and 3.7.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import uuid
from pathlib import Path

from triton.runtime.cache import FileCacheManager

logger = logging.getLogger(__name__)

_SUFFIX = ".sha256"


class CheckedCacheManager(FileCacheManager):
    """Files whose digest is missing or does not fit are as good as not there."""

    def get_file(self, filename: str) -> str | None:
        """The path of a file that is whole; ``None`` for others."""
        path = super().get_file(filename)
        return path if path and _is_whole(Path(path)) else None

    def get_group(self, filename: str) -> dict[str, str] | None:
        """The paths of a group's files; ``None`` where one of them is not whole."""
        listed = self.get_file(f"__grp__{filename}")
        if listed is None:
            return None
        group: dict[str, str] = json.loads(Path(listed).read_text())["child_paths"]
        return group if all(_is_whole(Path(path)) for path in group.values()) else None

    def put(self, data: bytes | str, filename: str, binary: bool = True) -> str:
        """Write a file and its digest; returns the file's path.

        Triton makes a folder for each file and removes it; at each such call a thread that
        compiles has to wait for Python again.
        """
        del binary
        written = data if isinstance(data, bytes) else str(data).encode()
        digest = _digest(filename, written).encode()
        for name, content in ((filename, written), (filename + _SUFFIX, digest)):
            temporary = Path(self.cache_dir) / f"tmp.{os.getpid()}_{uuid.uuid4()}"
            temporary.write_bytes(content)
            temporary.replace(temporary.with_name(name))
        return str(Path(self.cache_dir) / filename)


def _is_whole(path: Path) -> bool:
    try:
        noted = path.with_name(path.name + _SUFFIX).read_text()
        whole = noted == _digest(path.name, path.read_bytes())
    except (OSError, ValueError):  # no digest, or not even text
        whole = False
    if not whole:
        logger.warning("%s of Triton's cache is damaged, and is made anew", path)
    return whole


def _digest(name: str, data: bytes) -> str:
    return hashlib.sha256(name.encode() + b"\0" + data).hexdigest()
