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
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

ENTRY_POINT_GROUP = "aoti_plugins.libraries"

logger = logging.getLogger(__name__)


def announce(core: ctypes.CDLL) -> None:
    """Name the libraries of all installed packages to the library that loads blobs.

    Args:
        core: the library that has ``aotip_add_kernel_library``.
    """
    function = core.aotip_add_kernel_library
    function.restype, function.argtypes = ctypes.c_int32, (ctypes.c_char_p, ctypes.c_char_p)
    for soname, path in installed_libraries().items():
        if function(soname.encode(), os.fsencode(path)) != 0:
            raise MemoryError(f"kernel library {soname} cannot be noted")


def installed_libraries() -> dict[str, Path]:
    """Find the libraries of installed packages, by soname.

    Of two packages with one soname the alphabetically first counts. What a package lists and does
    not have is logged: it may have been built without it.
    """
    found: dict[str, Path] = {}
    for entry in sorted(entry_points(group=ENTRY_POINT_GROUP), key=_order):
        path = _path(entry)
        if path is None:
            logger.debug("%s: there is no %s in %s", _distribution(entry), entry.name, entry.value)
        elif found.setdefault(entry.name, path) != path:
            logger.warning(
                "kernel library %s is in several packages; %s is taken",
                entry.name,
                found[entry.name],
            )
    return found


def _path(entry: EntryPoint) -> Path | None:
    package, *rest = entry.value.split(".")
    spec = importlib.util.find_spec(package)
    folders = (Path(root, *rest) for root in (spec and spec.submodule_search_locations) or ())
    return next((f / entry.name for f in folders if (f / entry.name).exists()), None)


def _distribution(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else ""


def _order(entry: EntryPoint) -> tuple[str, str]:
    return _distribution(entry), entry.name
