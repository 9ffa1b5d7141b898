"""Find Zig, which brings a C++ compiler, headers, and a linker for macOS to any machine.

It is PyPI's package ``ziglang``. What it compiles once per target, its C++ library, it keeps in a
cache of its own; it lies in ours. Zig does not look at what it takes from there, so we do.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import json
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

from aoti_plugins.errors import LoweringError
from aoti_plugins.lowering.artifacts.cache_folder import (
    CACHE_DIR_VARIABLE,
    file_digest,
    private_folder,
    read_entry,
    write_entry,
)

logger = logging.getLogger(__name__)

_RESULTS = ("o", "b", "z")
"""Folders of Zig's cache whose files it takes as they are; manifests it checks itself."""

_MOST_NBYTES = 1 << 30
_INSTALL = "pip install 'aoti-plugins[mps]'"


def zig_compiler() -> list[str]:
    """The command of Zig's C++ compiler.

    Raises:
        LoweringError: Zig is not installed; the message says how to.
    """
    spec = importlib.util.find_spec("ziglang")
    for folder in (spec and spec.submodule_search_locations) or ():
        for name in ("zig", "zig.exe"):
            if (Path(folder) / name).exists():
                return ["env", *_cache_variables(), str(Path(folder) / name), "c++"]
    raise LoweringError(
        "lowering for MPS links its code with Zig, and PyPI's package ziglang is not installed: "
        f"{_INSTALL}"
    )


@contextlib.contextmanager
def checked_zig_cache() -> Iterator[None]:
    """Hold Zig's cache for one build: what is in it is what earlier builds left there.

    Where a file is another, and where there is more than a gigabyte, all of it is made anew.
    Processes take turns.

    Raises:
        LoweringError: there is no cache that can be written.
    """
    folder = _cache_folder()
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = _digests(folder)
        known = _known_digests(folder / "digests")
        damaged = known is None or any(
            found.get(n, digest) != digest for n, digest in known.items()
        )
        if damaged:
            logger.warning("Zig's cache in %s is damaged, and is made anew", folder)
        if damaged or sum((folder / name).stat().st_size for name in found) > _MOST_NBYTES:
            for path in folder.iterdir():
                if path.is_dir():
                    shutil.rmtree(path)
        yield
        write_entry(folder / "digests", json.dumps(_digests(folder)).encode())


def _known_digests(path: Path) -> dict[str, str] | None:
    """Digests by name; ``None`` where those that were noted are damaged."""
    try:
        noted = read_entry(path)
    except FileNotFoundError:
        return {}
    digests: dict[str, str] | None = None if noted is None else json.loads(noted)
    return digests


def _digests(folder: Path) -> dict[str, str]:
    files = (path for name in _RESULTS for path in (folder / name).rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): file_digest(path) for path in files}


def _cache_variables() -> list[str]:
    folder = _cache_folder()
    return [f"ZIG_GLOBAL_CACHE_DIR={folder}", f"ZIG_LOCAL_CACHE_DIR={folder}"]


def _cache_folder() -> Path:
    try:
        return private_folder("zig")
    except OSError as error:
        raise LoweringError(
            f"Zig needs a cache, and ours cannot be written: {error}. "
            f"Set {CACHE_DIR_VARIABLE} to a folder that can."
        ) from error
