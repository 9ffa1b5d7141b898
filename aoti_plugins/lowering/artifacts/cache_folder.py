"""The folder of the compile cache: whose it is, and how a file gets into it and out of it again.

What lies there becomes machine code of whoever lowers, and of whoever runs the program, so nobody
else may write to it. Disks and machines fail, too: an entry carries a SHA-256 over its name and its
bytes, reaches the disk before it has its name, and is not used when the two do not fit.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from aoti_plugins.errors import LoweringError

CACHE_DIR_VARIABLE = "AOTI_PLUGINS_CACHE_DIR"
BUILDING = "building-"
"""How the names of folders begin that nobody else has to look at yet."""

_MAGIC = b"aoti_plugins cache entry 1\n"
_DIGESTS = "digests"

# A thread waits for Python after each block, up to 5 ms while another one runs.
_BLOCK_NBYTES = 1 << 25


class CacheNotPrivateError(LoweringError):
    """Others than the user could put code into the folder."""


def cache_dir() -> Path:
    """``$AOTI_PLUGINS_CACHE_DIR``, else ``aoti_plugins`` in the user's cache folder."""
    if chosen := os.environ.get(CACHE_DIR_VARIABLE):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "aoti_plugins"


def private_folder(kind: str) -> Path:
    """The folder for one kind of entry, made for this user alone where it is not there.

    Raises:
        CacheNotPrivateError: it, or the cache, belongs to another user or others can write to it.
        OSError: it is not there and cannot be made.
    """
    root = cache_dir()
    for folder in (root, root / kind):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_private(folder, CACHE_DIR_VARIABLE)
    return root / kind


def check_private(folder: Path, variable: str) -> None:
    """Refuse a folder that another user, root apart, can write to or could exchange.

    Args:
        folder: it is there.
        variable: the environment variable that names another one, for the message.

    Raises:
        CacheNotPrivateError: says whose it is, or which permissions it has, and what to do.
    """
    status = folder.stat()
    owners = {status.st_uid, folder.lstat().st_uid}  # of a link, too
    if strangers := owners - {0, os.geteuid()}:
        problem = f"it belongs to user {strangers.pop()}, and you are user {os.geteuid()}"
    elif status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        problem = f"others can write to it (mode {stat.S_IMODE(status.st_mode):04o})"
    else:
        return
    raise CacheNotPrivateError(
        f"the cache {str(folder)!r} is not used: {problem}, and what lies there becomes part of "
        f"programs. Delete it, or set {variable} to a folder of your own with mode 0700."
    )


def read_entry(path: Path) -> bytes | None:
    """The bytes that ``write_entry`` was given; ``None`` where they are damaged.

    Raises:
        OSError: there is no such entry, or it cannot be read.
    """
    data = path.read_bytes()
    start = len(_MAGIC) + hashlib.sha256().digest_size
    found, content = data[:start], data[start:]
    return content if found == _head(path.name, content) else None


def write_entry(path: Path, data: bytes) -> None:
    """Put a file in place in one step, with its digest; whoever wrote one before loses it.

    Raises:
        OSError: it cannot be written.
    """
    with new_folder(path.parent) as building:
        temporary = building / "entry"
        temporary.write_bytes(_head(path.name, data) + data)
        _to_disk(temporary)
        temporary.replace(path)
    _to_disk(path.parent)


def seal_folder(folder: Path, name: str) -> None:
    """Note the digests of all files of a finished folder, and bring all to the disk.

    Args:
        folder: where they were made.
        name: the name that the folder is going to have.
    """
    digests = dict(_file_digests(folder))
    (folder / _DIGESTS).write_text(_digest_text(name, digests))
    for file in (*digests, _DIGESTS):
        _to_disk(folder / file)
    _to_disk(folder)


def is_whole(folder: Path) -> bool:
    """Whether the files of a sealed folder are those that it was sealed with.

    Raises:
        OSError: a file is there that cannot be read.
    """
    try:
        noted = (folder / _DIGESTS).read_bytes()
    except FileNotFoundError:
        return False
    return noted == _digest_text(folder.name, dict(_file_digests(folder))).encode()


def publish_folder(building: Path, folder: Path) -> None:
    """Give a sealed folder its name, in one step.

    Raises:
        OSError: it cannot be renamed; ``folder`` may be there already.
    """
    building.rename(folder)
    _to_disk(folder.parent)


@contextlib.contextmanager
def new_folder(parent: Path) -> Iterator[Path]:
    """A new folder with a name that is no entry's; what of it is still there goes at the end.

    Raises:
        OSError: it cannot be made.
    """
    name = tempfile.mkdtemp(dir=parent, prefix=BUILDING)
    try:
        yield Path(name)
    finally:
        shutil.rmtree(name, ignore_errors=True)


def _head(name: str, data: bytes) -> bytes:
    return _MAGIC + hashlib.sha256(name.encode() + b"\0" + data).digest()


def _file_digests(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path != folder / _DIGESTS:
            yield str(path.relative_to(folder)), file_digest(path)


def file_digest(path: Path) -> str:
    """SHA-256 of a file, 64 hex digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK_NBYTES):
            digest.update(block)
    return digest.hexdigest()


def _digest_text(name: str, digests: Mapping[str, str]) -> str:
    lines = [f"{digest}  {file}\n" for file, digest in digests.items()]
    return "".join([f"{name}\n", *lines])


def _to_disk(path: Path) -> None:
    """Wait until a file, or the names in a folder, would survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
