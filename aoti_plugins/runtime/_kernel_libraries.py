"""Tells the runtime where the kernel libraries of installed packages are.

A package lists its libraries under the entry-point group ``aoti_plugins.libraries``: the soname,
and the folder that it is in, as a dotted name that begins with the package's. Nothing of the
package is imported, and no library is loaded before a program needs it.
"""

from __future__ import annotations

import ctypes
import importlib.util
import logging
import os
from collections.abc import Collection, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

ENTRY_POINT_GROUP = "aoti_plugins.libraries"

_C_SHIM = b"aoti_torch_"  # what kernels are called, and what they call
_CORRECT = f"Correct the entry points of the group {ENTRY_POINT_GROUP!r}."

logger = logging.getLogger(__name__)


def announce(core: ctypes.CDLL) -> None:
    """Name the libraries of all installed packages to the library that loads blobs.

    Args:
        core: the library that has ``aotip_add_kernel_library``.
    """
    function = core.aotip_add_kernel_library
    function.restype, function.argtypes = ctypes.c_int32, (ctypes.c_char_p, ctypes.c_char_p)
    found, missing = _look_up()
    for problem in _problems(found, missing):
        logger.warning("%s", problem)
    for soname, path in found.items():
        if function(soname.encode(), os.fsencode(path)) != 0:
            raise MemoryError(f"kernel library {soname} cannot be noted")


def installed_libraries() -> dict[str, Path]:
    """Find the libraries of installed packages, by soname.

    Of two packages with one soname the alphabetically first counts.
    """
    return _look_up()[0]


def wrong_entries() -> list[str]:
    """Say which entry points name a library that is not there, though the package has others.

    A library that is not there may also be one that the package was built without, such as that of
    a device; then nothing of the package is left without an entry point.
    """
    return _problems(*_look_up())


def _look_up() -> tuple[dict[str, Path], list[EntryPoint]]:
    """The libraries that are there, by soname, and the entry points of those that are not."""
    found: dict[str, Path] = {}
    missing: list[EntryPoint] = []
    for entry in sorted(entry_points(group=ENTRY_POINT_GROUP), key=_order):
        path = _path(entry)
        if path is None:
            missing.append(entry)
        elif found.setdefault(entry.name, path) != path:
            logger.warning(
                "kernel library %s is in several packages; %s is taken",
                entry.name,
                found[entry.name],
            )
    return found, missing


def _problems(found: Mapping[str, Path], missing: Collection[EntryPoint]) -> list[str]:
    listed = set(found.values())
    return [problem for entry in missing for problem in _problem(entry, listed)]


def _problem(entry: EntryPoint, listed: Collection[Path]) -> Iterator[str]:
    what = f"{_distribution(entry)} lists kernel library {entry.name!r} in {entry.value!r}"
    roots = _package_roots(entry)
    if not roots:
        yield f"{what}, and there is no such package. {_CORRECT}"
        return
    libraries = {path: root for root in roots for path in root.rglob("lib*.so*")}
    others = [
        str(path.relative_to(root.parent))
        for path, root in sorted(libraries.items())
        if path not in listed and _is_kernel_library(path)
    ]
    if others:
        yield f"{what}, where it is not, and does not list {', '.join(others)}. {_CORRECT}"


def _is_kernel_library(path: Path) -> bool:
    return path.is_file() and not path.is_symlink() and _C_SHIM in path.read_bytes()


def _path(entry: EntryPoint) -> Path | None:
    rest = entry.value.split(".")[1:]
    paths = (Path(root, *rest, entry.name) for root in _package_roots(entry))
    return next((path for path in paths if path.exists()), None)


def _package_roots(entry: EntryPoint) -> list[Path]:
    spec = importlib.util.find_spec(entry.value.partition(".")[0])
    return [Path(root) for root in (spec and spec.submodule_search_locations) or ()]


def _distribution(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else ""


def _order(entry: EntryPoint) -> tuple[str, str]:
    return _distribution(entry), entry.name
