"""What was compiled before is not compiled again: a cache per compiler, flags and torch version.

A generated file is a few hundred lines behind megabytes of templates; with its header precompiled,
a kernel file takes half a second instead of seven. The C interface of models is an object that
every blob links. Both go when nobody has used them for a month: a precompiled header takes over
100 MB, and each version of torch has others. Whole blobs are kept, too, the least recently used
ones dropped. The key does not hold what is included: after reinstalling the same torch with other
headers, empty the cache.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

from aoti_plugins.errors import LoweringError
from aoti_plugins.lowering.artifacts.compiler import compiler_identity, run

logger = logging.getLogger(__name__)

CACHE_DIR_VARIABLE = "AOTI_PLUGINS_CACHE_DIR"

_MOST_BLOBS_NBYTES = 1 << 30
_UNUSED_SECONDS = 30 * 24 * 3600
_BUILDING = "building-"


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
    build = [*compiler, *flags, "-x", "c++-header", "prefix.h", "-o", "prefix.h.gch"]
    return _cached("headers", "prefix.h", text, compiler, build, "prefix.h")


def compiled_object(compiler: Sequence[str], flags: Sequence[str], text: str) -> Path:
    """The object file of a translation unit that many blobs share.

    Args:
        compiler: command of the compiler.
        flags: all of its flags.
        text: the source.

    Returns:
        Path of the object file.

    Raises:
        LoweringError: the source does not compile, or the cache cannot be written.
    """
    build = [*compiler, *flags, "-c", "shared.cpp", "-o", "shared.o"]
    return _cached("objects", "shared.cpp", text, compiler, build, "shared.o")


def cached_blob(key: bytes, build: Callable[[], bytes]) -> bytes:
    """The blob that ``build`` made, or would make, from what ``key`` is a digest of.

    Safe to call from several processes at once. A cache that cannot be written is no reason to
    fail: the blob is then built every time.

    Args:
        key: digest of everything that the bytes depend on.
        build: makes them.
    """
    folder = cache_dir() / "blobs"
    return _kept(folder / f"{key.hex()[:40]}.so", build, lambda: _drop_oldest(folder))


def cached_text(kind: str, key: bytes, make: Callable[[], str]) -> str:
    """The short text that ``make`` gave, or would give; a cache that cannot be written is no error.

    Args:
        kind: what it is, the name of a folder.
        key: digest of everything that the text depends on.
        make: makes it.
    """
    path = cache_dir() / kind / f"{key.hex()[:40]}.txt"
    return _kept(path, lambda: make().encode(), lambda: None).decode()


def _kept(path: Path, make: Callable[[], bytes], after: Callable[[], None]) -> bytes:
    """The content of a file, made and written first where it is not there."""
    try:
        data = path.read_bytes()
        os.utime(path)
        return data
    except OSError:
        data = make()
    try:
        building = _new_folder(path.parent)
    except LoweringError:
        logger.debug("%s is not kept", path.name, exc_info=True)
        return data
    try:
        (building / "file").write_bytes(data)
        (building / "file").replace(path)
        after()
    except OSError:
        logger.debug("%s is not kept", path.name, exc_info=True)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return data


def _drop_oldest(folder: Path) -> None:
    """Keep the blobs that were used last, as many as there is room for."""
    found = [(path.stat(), path) for path in folder.glob("*.so")]
    left = _MOST_BLOBS_NBYTES
    for status, path in sorted(found, key=lambda one: one[0].st_mtime, reverse=True):
        left -= status.st_size
        if left < 0:
            path.unlink(missing_ok=True)


def _cached(
    kind: str, source: str, text: str, compiler: Sequence[str], build: Sequence[str], wanted: str
) -> Path:
    """The path of ``wanted``, made by ``build`` from ``text`` unless the cache has it."""
    identity = compiler_identity(tuple(compiler))
    key = repr((identity, list(build), text, version("torch")))
    folder = cache_dir() / kind / hashlib.sha256(key.encode()).hexdigest()[:24]
    if (folder / wanted).exists():
        _mark_used(folder)
        return folder / wanted
    building = _new_folder(folder.parent)
    try:
        (building / source).write_text(text)
        run(build, cwd=building, scratch=building)
        _publish(building, folder, wanted)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    _drop_unused(folder.parent)
    return folder / wanted


def _mark_used(folder: Path) -> None:
    try:
        os.utime(folder)
    except OSError:  # a cache that others fill
        logger.debug("%s stays as old as it was", folder, exc_info=True)


def _drop_unused(parent: Path) -> None:
    """Remove what was not used for long, what a killed process left behind included.

    A folder gets another name first: nobody finds half of one.
    """
    for folder in parent.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another process drops it, too
            if time.time() - folder.stat().st_mtime > _UNUSED_SECONDS:
                dropped = folder.rename(parent / f"{_BUILDING}dropped-{folder.name}-{os.getpid()}")
                shutil.rmtree(dropped, ignore_errors=True)


def _new_folder(parent: Path) -> Path:
    try:
        parent.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(dir=parent, prefix=_BUILDING))
    except OSError as error:
        raise LoweringError(
            f"the compile cache cannot be written: {error}. "
            f"Set {CACHE_DIR_VARIABLE} to a folder that can."
        ) from error


def _publish(building: Path, folder: Path, wanted: str) -> None:
    try:
        building.rename(folder)
    except OSError:
        if not (folder / wanted).exists():  # not merely another process that was faster
            raise
