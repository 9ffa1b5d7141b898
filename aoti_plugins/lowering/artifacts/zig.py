"""Find Zig, which brings a C++ compiler, headers, and linkers for Linux and macOS to any machine.

It is PyPI's package ``ziglang``. What it compiles once per target, its C++ library, it keeps in a
cache of its own; it lies in ours. Zig does not look at what it takes from there, so we do.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import importlib.util
import json
import logging
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from aoti_plugins.errors import LoweringError
from aoti_plugins.lowering.artifacts.cache_folder import (
    CACHE_DIR_VARIABLE,
    file_digest,
    private_folder,
    read_entry,
    write_entry,
)
from aoti_plugins.lowering.artifacts.compiler import run

logger = logging.getLogger(__name__)

MACHINES = ("x86_64", "aarch64")
"""Machines that it makes code for Linux for."""

VERSION = "0.17"
"""The one that is known to work."""

LINK_FLAGS = ("-Os",)
"""So its C++ library, which becomes part of a blob, is compiled to be small."""

_GLIBC = "2.28"
_RESULTS = ("o", "b", "z")
"""Folders of Zig's cache whose files it takes as they are; manifests it checks itself."""

_MOST_NBYTES = 1 << 30
_INSTALL = f"pip install 'ziglang=={VERSION}.*'"
_GLOBAL_CACHE = "ZIG_GLOBAL_CACHE_DIR"

_FEATURES = {"fp16": "fullfp16"}
"""What gcc calls extensions of Arm machines, and Zig otherwise."""


def is_installed() -> bool:
    """Whether PyPI's package is there; whether it works is seen by who asks for a compiler."""
    return _program() is not None


def zig_compiler(target: str) -> list[str]:
    """The command of Zig's C++ compiler.

    Args:
        target: machine and system, in Zig's words.

    Raises:
        LoweringError: Zig is not installed, does not run, or is a version that is not known to
            work; the message says what to install.
    """
    program = _program()
    if program is None:
        raise LoweringError(
            f"lowering for this target compiles its code with Zig, and PyPI's package ziglang is "
            f"not installed: {_INSTALL}"
        )
    _check_version(program)
    cache = f"{_GLOBAL_CACHE}={_cache_folder()}"
    return ["/usr/bin/env", cache, str(program), "c++", "-target", target]


def linux_compiler(machine: str) -> list[str]:
    """Zig's C++ compiler for Linux machines with glibc 2.28 or a newer one.

    Args:
        machine: one of ``MACHINES``.

    Raises:
        LoweringError: as of ``zig_compiler``.
    """
    return zig_compiler(f"{machine}-linux-gnu.{_GLIBC}")


def is_zig(command: Sequence[str]) -> bool:
    """Whether a command is one of ``zig_compiler``."""
    return any(part.startswith(f"{_GLOBAL_CACHE}=") for part in command)


def zig_flags(flags: Sequence[str]) -> list[str]:
    """A compiler's flags as Zig wants them: gcc's ``-march=`` of Arm machines is its ``-mcpu=``."""
    return [_cpu(flag) for flag in flags]


def _cpu(flag: str) -> str:
    level = re.fullmatch(r"-march=armv(\d+)(?:\.(\d+))?-a((?:\+\w+)*)", flag)
    if level is None:
        return flag
    version = "_".join(number for number in level.groups()[:2] if number)
    extensions = [_FEATURES.get(name, name) for name in level[3].split("+")[1:]]
    return "-mcpu=" + "+".join(["generic", f"v{version}a", *extensions])


def _program() -> Path | None:
    spec = importlib.util.find_spec("ziglang")
    for folder in (spec and spec.submodule_search_locations) or ():
        for name in ("zig", "zig.exe"):
            if (Path(folder) / name).exists():
                return Path(folder) / name
    return None


@functools.cache
def _check_version(program: Path) -> None:
    try:
        found = run([str(program), "version"]).strip()
    except (OSError, LoweringError) as error:
        raise LoweringError(
            f"Zig, {program}, does not run: {error}\nInstall it again: "
            f"pip install --force-reinstall 'ziglang=={VERSION}.*'"
        ) from error
    if not found.startswith(f"{VERSION}."):
        raise LoweringError(
            f"Zig, {program}, is version {found}, and only {VERSION} is known to work: {_INSTALL}"
        )


def zig_cache_for(command: Sequence[str]) -> contextlib.AbstractContextManager[None]:
    """``checked_zig_cache`` around a command that links with Zig, nothing around another one."""
    return checked_zig_cache() if is_zig(command) else contextlib.nullcontext()


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


def _cache_folder() -> Path:
    try:
        return private_folder("zig")
    except OSError as error:
        raise LoweringError(
            f"Zig needs a cache, and ours cannot be written: {error}. "
            f"Set {CACHE_DIR_VARIABLE} to a folder that can."
        ) from error
