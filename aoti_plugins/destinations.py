"""Where results are written: checked before the work, written whole or not at all.

A regular file, and one that is not there yet, is written beside its place and moved there at the
end, so that nobody ever finds half of it. A symbolic link is followed and stays. What is no regular
file, such as a pipe, a device or a descriptor that a shell names, is written into, never replaced.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TypeAlias

from aoti_plugins.errors import DestinationError

_Path: TypeAlias = str | os.PathLike[str]

_MOST_LINKS = 40  # as Linux has it
_DESCRIPTOR = re.compile(r"(/proc/(self|thread-self|\d+)(/task/\d+)?|/dev)/fd/\d+")
_unfinished: set[Path] = set()

_UNFINISHED = ".aoti-plugins-"  # short: beside a name of any length it must fit, too


def check_destination(path: _Path, *, read: Iterable[_Path] = (), is_merged: bool = False) -> None:
    """Find out whether a file can be written, without changing anything.

    Args:
        path: where a result will be written.
        read: files that the same work reads and that must not be overwritten.
        is_merged: what the file holds already is read and kept, so it must be a regular one.

    Raises:
        DestinationError: it cannot; says why.
    """
    with _explained(path):
        place = _followed(Path(path))
        for source in read:
            if place.exists() and Path(source).exists() and place.samefile(source):
                raise DestinationError(
                    f"cannot write {_shown(path)}: it is what is read; choose another name"
                )
        if _is_replaced(place):
            with tempfile.TemporaryFile(dir=_folder(place), prefix=_UNFINISHED):
                pass
        elif is_merged:
            raise DestinationError(
                f"cannot write {_shown(path)}: it is no regular file, and what it holds is kept"
            )
        elif not os.access(place, os.W_OK):
            raise DestinationError(f"cannot write {_shown(path)}: no permission")


def check_folder(path: _Path) -> None:
    """Find out whether files can be put into a folder that is there or will be made.

    Raises:
        DestinationError: they cannot; says why.
    """
    with _explained(path):
        folder = Path(path)
        while not folder.exists() and folder != folder.parent:
            folder = folder.parent
        if not folder.is_dir():
            raise DestinationError(f"cannot write to {_shown(path)}: {_shown(folder)} is no folder")
        with tempfile.TemporaryFile(dir=folder, prefix=_UNFINISHED):
            pass


def is_stream(path: _Path) -> bool:
    """Whether a path names something that is written into: a pipe, a device, a descriptor.

    Raises:
        DestinationError: the path cannot be looked up, or is a folder.
    """
    with _explained(path):
        return not _is_replaced(_followed(Path(path)))


@contextmanager
def writing(path: _Path) -> Iterator[BinaryIO]:
    """Open a destination; what was written is in its place when the block ends without an error.

    Args:
        path: a file, a link to one, or something that is written into.

    Raises:
        DestinationError: it cannot be written, for whatever reason the system gives.
    """
    with _explained(path):
        place = _followed(Path(path))
        if _is_replaced(place):
            with _replacing(place) as file:
                yield file
        else:
            with open(os.open(place, os.O_WRONLY), "wb") as stream:
                yield stream


def write_bytes(path: _Path, data: bytes | memoryview) -> None:
    """Write a destination at once; see ``writing``."""
    with writing(path) as file:
        file.write(data)


def move_into_place(finished: Path, path: _Path) -> None:
    """Put a finished file where it belongs, as ``writing`` would have done.

    Args:
        finished: a file in the folder of ``path``, or in a folder in there; it is gone afterwards.
        path: the destination.

    Raises:
        DestinationError: it cannot be written.
    """
    with _explained(path):
        is_link, place = os.path.islink(path), _followed(Path(path))
        if not is_link and _is_replaced(place):
            _replace(place, finished)
            return
    with writing(path) as file, finished.open("rb") as source:
        shutil.copyfileobj(source, file, 1 << 20)
    finished.unlink()


def remove_unfinished() -> None:
    """Remove what is being written; for a process that ends without unwinding."""
    for path in list(_unfinished):
        with suppress(OSError):
            path.unlink()


@contextmanager
def _replacing(place: Path) -> Iterator[BinaryIO]:
    unfinished = _folder(place) / f"{_UNFINISHED}{secrets.token_hex(4)}"
    _unfinished.add(unfinished)
    try:
        with unfinished.open("xb") as file:
            yield file
        _replace(place, unfinished)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    finally:
        _unfinished.discard(unfinished)


def _replace(place: Path, finished: Path) -> None:
    """Move a file to its place, with the permissions of what was there."""
    with finished.open("rb") as file:  # the name may survive a power cut alone
        os.fsync(file.fileno())
    if place.exists():
        finished.chmod(stat.S_IMODE(place.stat().st_mode))
    finished.replace(place)


def _followed(path: Path) -> Path:
    """Follow links to the place that they name, whether something is there or not.

    A descriptor of a process (``/dev/stdout``) is such a place: what it is open at must not be
    replaced, or its owner would go on writing into a file without a name.
    """
    for _ in range(_MOST_LINKS):
        if _DESCRIPTOR.fullmatch(str(path)) or not path.is_symlink():
            return path
        path = path.parent / path.readlink()
    raise DestinationError(f"cannot write {_shown(path)}: too many symbolic links")


def _is_replaced(place: Path) -> bool:
    if _DESCRIPTOR.fullmatch(str(place)):
        return False
    try:
        mode = place.stat().st_mode
    except FileNotFoundError:
        return True
    if stat.S_ISDIR(mode):
        raise DestinationError(f"cannot write {_shown(place)}: it is a folder")
    return stat.S_ISREG(mode)


def _folder(place: Path) -> Path:
    if not place.parent.is_dir():
        raise DestinationError(
            f"cannot write {_shown(place)}: there is no folder {_shown(place.parent)}"
        )
    return place.parent


@contextmanager
def _explained(path: _Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DestinationError(f"cannot write {_shown(path)}: {error.strerror or error}") from error


def _shown(path: _Path) -> str:
    return repr(os.fspath(path))
