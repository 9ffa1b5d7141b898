"""What was compiled before is not compiled again: a cache per compiler, flags and torch version.

A generated file is a few hundred lines behind megabytes of templates; with its header precompiled,
a kernel file takes half a second instead of seven. The C interface of models is an object that
every blob links. Both go when nobody has used them for a month, or for an hour where there are more
than four gigabytes: a precompiled header takes over 100 MB, and each version of torch, of ours and
each environment has others. Whole blobs are kept, too, the least recently used
ones dropped. What is damaged is made anew, and a folder that others can write to is refused
(``cache_folder``). The key does not hold what is included: after reinstalling the same torch with
other headers, empty the cache.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

from aoti_plugins.errors import LoweringError
from aoti_plugins.lowering.artifacts.cache_folder import (
    BUILDING,
    CACHE_DIR_VARIABLE,
    is_whole,
    new_folder,
    private_folder,
    publish_folder,
    read_entry,
    seal_folder,
    write_entry,
)
from aoti_plugins.lowering.artifacts.compiler import compiler_identity, is_clang, run

logger = logging.getLogger(__name__)

_MOST_BLOBS_NBYTES = 1 << 30
_MOST_TEXTS_NBYTES = 1 << 20
_MOST_SHARED_NBYTES = 4 << 30
_UNUSED_SECONDS = 30 * 24 * 3600
_MAYBE_IN_USE_SECONDS = 3600

_checked: dict[Path, list[tuple[str, int, int, int]]] = {}


def precompiled(compiler: Sequence[str], flags: Sequence[str], text: str) -> list[str]:
    """A header whose precompiled form, for these flags, is in the cache.

    Safe to call from several processes at once: the finished header is moved into place in one
    step.

    Args:
        compiler: command of the compiler.
        flags: the flags of the translation units that will include it.
        text: the header's content: comments, and lines that include another one in ``<>``.

    Returns:
        The flags that include it.

    Raises:
        LoweringError: the header does not compile, or the cache cannot be written.
    """
    if not is_clang(compiler):
        build = [*compiler, *flags, "-x", "c++-header", "prefix.h", "-o", "prefix.h.gch"]
        return ["-include", str(_cached("headers", "prefix.h", text, compiler, build, "prefix.h"))]
    # Of each header clang notes where it was, and a new entry is renamed; so the text is not one.
    included = [part for name in _included(text) for part in ("-include", name)]
    build = [*compiler, *flags, "-Xclang", "-fno-pch-timestamp", *included]
    build += ["-x", "c++-header", os.devnull, "-o", "prefix.pch"]
    return [
        "-include-pch",
        str(_cached("headers", "prefix.h", text, compiler, build, "prefix.pch")),
    ]


def _included(text: str) -> list[str]:
    """The names of the headers that a text includes; it has nothing else in it."""
    lines = [line for line in text.splitlines() if line and not line.startswith("//")]
    found = [re.fullmatch(r"#include <(.+)>", line) for line in lines]
    odd = [line for line, match in zip(lines, found, strict=True) if match is None]
    if odd:
        raise ValueError(f"a precompiled header includes others and has no text: {odd[0]!r}")
    return [match[1] for match in found if match]


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
    return _kept("blobs", f"{key.hex()[:40]}.blob", build, _MOST_BLOBS_NBYTES)


def cached_text(kind: str, key: bytes, make: Callable[[], str]) -> str:
    """The short text that ``make`` gave, or would give; a cache that cannot be written is no error.

    Args:
        kind: what it is, the name of a folder.
        key: digest of everything that the text depends on.
        make: makes it.
    """
    name = f"{key.hex()[:40]}.text"
    return _kept(kind, name, lambda: make().encode(), _MOST_TEXTS_NBYTES).decode()


def _kept(kind: str, name: str, make: Callable[[], bytes], most_nbytes: int) -> bytes:
    """The content of an entry, made and written first where it is not there or damaged."""
    folder = _folder(kind)
    data = _found(folder / name) if folder else None
    if data is not None:
        return data
    data = make()
    if folder:
        try:
            write_entry(folder / name, data)
            _drop_oldest(folder, most_nbytes)
        except OSError:
            logger.debug("%s is not kept", name, exc_info=True)
    return data


def _folder(kind: str) -> Path | None:
    """The folder of a kind; ``None`` where there is none and none can be made."""
    try:
        return private_folder(kind)
    except OSError:
        logger.debug("there is no cache for %s", kind, exc_info=True)
        return None


def _found(path: Path) -> bytes | None:
    try:
        data = read_entry(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        logger.warning("the cache entry %s cannot be read: %s", path, error)
        return None
    if data is None:
        logger.warning("the cache entry %s is damaged, and is made anew", path)
    else:
        _mark_used(path)
    return data


def _drop_oldest(folder: Path, most_nbytes: int) -> None:
    """Keep the entries that were used last, as many as there is room for.

    What killed processes left behind goes when it is old.
    """
    found = []
    for path in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another process drops it, too
            status = path.stat()
            if path.is_file():
                found.append((status, path))
            elif time.time() - status.st_mtime > _UNUSED_SECONDS:
                shutil.rmtree(path, ignore_errors=True)
    left = most_nbytes
    for status, path in sorted(found, key=lambda one: one[0].st_mtime, reverse=True):
        left -= status.st_size
        if left < 0:
            path.unlink(missing_ok=True)


def _cached(
    kind: str, source: str, text: str, compiler: Sequence[str], build: Sequence[str], wanted: str
) -> Path:
    """The path of ``wanted``, made by ``build`` from ``text`` unless the cache has it."""
    identity = compiler_identity(tuple(compiler))
    key = repr(("sealed", identity, list(build), text, version("torch")))
    name = hashlib.sha256(key.encode()).hexdigest()[:24]
    try:
        folder = private_folder(kind) / name
        if _is_usable(folder):
            _mark_used(folder)
            return folder / wanted
        with new_folder(folder.parent) as building:
            (building / source).write_text(text, "utf-8")
            _build(build, building)
            seal_folder(building, name)
            _publish(building, folder)
        _make_room(folder.parent)
        return folder / wanted
    except OSError as error:
        raise LoweringError(
            f"the compile cache cannot be written: {error}. "
            f"Set {CACHE_DIR_VARIABLE} to a folder that can."
        ) from error


def _build(command: Sequence[str], folder: Path) -> None:
    try:
        with tempfile.TemporaryDirectory(prefix="aoti_plugins-") as scratch:
            run(command, cwd=folder, scratch=Path(scratch))
    except OSError as error:  # not the cache's
        raise LoweringError(f"{command[0]} cannot be run: {error}") from error


def _is_usable(folder: Path) -> bool:
    """Whether an entry is there and whole; one that is not is dropped.

    An entry that was read once is not read again by this process, while its files have the same
    times and sizes: a precompiled header has over 100 MB.
    """
    if not folder.is_dir():
        return False
    try:
        files = {path: path.stat() for path in folder.rglob("*")}
        stamp = sorted((str(p), s.st_ino, s.st_size, s.st_mtime_ns) for p, s in files.items())
        if _checked.get(folder) == stamp:
            return True
        if is_whole(folder):
            _checked[folder] = stamp
            return True
    except FileNotFoundError:  # another process drops it
        return False
    logger.warning("the cache entry %s is damaged, and is made anew", folder)
    _drop(folder)
    return False


def _mark_used(path: Path) -> None:
    try:
        os.utime(path)
    except OSError:  # a cache that only root fills
        logger.debug("%s stays as old as it was", path, exc_info=True)


def _make_room(parent: Path) -> None:
    """Remove what was not used for long, what a killed process left behind included.

    Of the rest as much stays as there is room for, what was used last first; what a compiler may
    be reading stays in any case.
    """
    ages: dict[Path, float] = {}
    for folder in parent.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another process drops it, too
            ages[folder] = time.time() - folder.stat().st_mtime
    left = _MOST_SHARED_NBYTES
    for folder, age in sorted(ages.items(), key=lambda one: one[1]):
        with contextlib.suppress(FileNotFoundError):
            left -= sum(path.stat().st_size for path in folder.rglob("*"))
            if age > _UNUSED_SECONDS or (left < 0 and age > _MAYBE_IN_USE_SECONDS):
                _drop(folder)


def _drop(folder: Path) -> None:
    """Remove an entry. It gets another name first: nobody finds half of one."""
    with contextlib.suppress(FileNotFoundError):
        dropped = f"{BUILDING}dropped-{folder.name}-{os.getpid()}-{threading.get_ident()}"
        shutil.rmtree(folder.rename(folder.parent / dropped), ignore_errors=True)


def _publish(building: Path, folder: Path) -> None:
    try:
        publish_folder(building, folder)
    except OSError:
        if not is_whole(folder):  # not merely another process that was faster
            raise
