"""Precompiled headers for the generated C++, cached per compiler, flags and torch version.

A generated file is a few hundred lines behind megabytes of templates; with its header precompiled,
a kernel file takes half a second instead of seven. The key does not hold what
is included: after reinstalling the same torch with other headers, empty the cache.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

from aoti_plugins.errors import LoweringError
from aoti_plugins.lowering.artifacts.compiler import compiler_identity, run

CACHE_DIR_VARIABLE = "AOTI_PLUGINS_CACHE_DIR"


def cache_dir() -> Path:
    """``$AOTI_PLUGINS_CACHE_DIR``, else ``aoti_plugins`` in the user's cache folder."""
    if chosen := os.environ.get(CACHE_DIR_VARIABLE):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "aoti_plugins"


def precompiled(compiler: Sequence[str], flags: Sequence[str], text: str) -> Path:
    """A header with ``text`` whose precompiled form, for these flags, lies beside it.

    Safe to call from several processes at once: the finished header is moved into place in one
    step.

    Args:
        compiler: command of the compiler.
        flags: the flags of the translation units that will include it.
        text: the header's content.

    Returns:
        Path to give to ``-include``.

    Raises:
        LoweringError: the header does not compile, or the cache cannot be written.
    """
    key = repr((compiler_identity(tuple(compiler)), list(flags), text, torch.__version__))
    folder = cache_dir() / "headers" / hashlib.sha256(key.encode()).hexdigest()[:24]
    header = folder / "prefix.h"
    if header.exists():
        return header
    building = _new_folder(folder.parent)
    try:
        (building / "prefix.h").write_text(text)
        command = [*compiler, *flags, "-x", "c++-header", "prefix.h", "-o", "prefix.h.gch"]
        run(command, cwd=building)
        _publish(building, folder)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return header


def _new_folder(parent: Path) -> Path:
    try:
        parent.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(dir=parent, prefix="building-"))
    except OSError as error:
        raise LoweringError(
            f"the cache of precompiled headers cannot be written: {error}. "
            f"Set {CACHE_DIR_VARIABLE} to a folder that can."
        ) from error


def _publish(building: Path, folder: Path) -> None:
    try:
        building.rename(folder)
    except OSError:
        if not (folder / "prefix.h").exists():  # not merely another process that was faster
            raise
