"""Where the native files of the installed package are: libraries, headers, the CMake package."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from aoti_plugins.errors import RuntimeLoadError

LIBRARY_DIR_VARIABLE = "AOTI_PLUGINS_LIBRARY_DIR"
"""Environment variable that names a build folder, whose libraries then come before installed
ones."""

_IS_MACOS: Final = sys.platform == "darwin"

LIBRARY_SUFFIX: Final = ".dylib" if _IS_MACOS else ".so"
"""How names of libraries end on this system, ours and executorch's."""

RUNNER: Final = f"libaoti_plugins_runner{LIBRARY_SUFFIX}"
"""File name of the library behind ``aoti_plugins.runtime``."""

CORE: Final = (
    "libexecutorch_backend_aoti_mps.dylib" if _IS_MACOS else "libexecutorch_backend_aoti.so"
)
"""File name of the library that has what all delegates share."""


def on_core(*names: str) -> tuple[str, ...]:
    """Libraries of a delegate of ours, in the order in which they are loaded; on macOS none.

    Args:
        names: those beside the core.
    """
    return () if _IS_MACOS else (CORE, *names)


def library(name: str | Path) -> Path:
    """Return the path of a file under ``lib/``, or of one that is named by its absolute path.

    Raises:
        RuntimeLoadError: it is in none of the folders; the message lists them.
    """
    return _find(name, _library_folders())


def has_library(name: str | Path) -> bool:
    """Whether ``library`` finds a file; a build without CUDA headers has no library for CUDA."""
    return any((folder / name).exists() for folder in _library_folders())


def include_dir() -> Path:
    """Return the folder of our headers, for ``-I``.

    Raises:
        RuntimeLoadError: it is not there.
    """
    return _find("aoti_plugins/shim.h", _package_folders("include")).parent.parent


def cmake_dir() -> Path:
    """Return the folder of ``aoti_plugins-config.cmake``, for a C++ program's CMake.

    Raises:
        RuntimeLoadError: it is not there.
    """
    return _find("cmake/aoti_plugins/aoti_plugins-config.cmake", _package_folders("lib")).parent


def _library_folders() -> list[Path]:
    override = os.environ.get(LIBRARY_DIR_VARIABLE)
    folders = _package_folders("lib")
    return [Path(override), *folders] if override else folders


def _package_folders(kind: str) -> list[Path]:
    """List where files may be; an editable install spreads the package over two folders."""
    import aoti_plugins

    return [Path(root) / kind for root in aoti_plugins.__path__]


def _find(name: str | Path, folders: list[Path]) -> Path:
    for folder in folders:
        if (folder / name).exists():
            return folder / name
    searched = "\n".join(f"  - {folder}" for folder in folders)
    raise RuntimeLoadError(
        f"{name} is in none of these folders:\n{searched}\n"
        "The native part of aoti_plugins was not built or not installed. Reinstall it with "
        f"'pip install --force-reinstall --no-deps aoti-plugins', or point {LIBRARY_DIR_VARIABLE} "
        "to a build folder."
    )
