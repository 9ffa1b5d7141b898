"""Where the installed native files are: libraries, headers, the CMake package.

``$AOTI_PLUGINS_LIBRARY_DIR`` names another folder for the libraries, for instance a build folder.
"""

from __future__ import annotations

import importlib.resources
import os
from pathlib import Path

from aoti_plugins.errors import RuntimeLoadError

LIBRARY_DIR_VARIABLE = "AOTI_PLUGINS_LIBRARY_DIR"


def library(name: str) -> Path:
    """Path of one of our shared libraries.

    Args:
        name: file name, for instance ``"libexecutorch_backend_aoti.so"``.

    Raises:
        RuntimeLoadError: it is not there.
    """
    if chosen := os.environ.get(LIBRARY_DIR_VARIABLE):
        return _existing(Path(chosen) / name, f"${LIBRARY_DIR_VARIABLE} is {chosen}")
    return _existing(_resource("lib", name), "the installation is incomplete")


def header(name: str) -> Path:
    """Path of one of our headers, for instance ``"aoti_plugins/shim.h"``."""
    return _existing(_resource("include", *name.split("/")), "the installation is incomplete")


def cmake_dir() -> Path:
    """Folder for ``CMAKE_PREFIX_PATH`` or ``aoti_plugins_DIR``."""
    return _existing(_resource("lib", "cmake", "aoti_plugins"), "the installation is incomplete")


def _resource(*parts: str) -> Path:
    # An editable install has two roots, the sources and the built files; the resource reader knows
    # both.
    found = importlib.resources.files("aoti_plugins").joinpath(*parts)
    return Path(str(found))


def _existing(path: Path, why: str) -> Path:
    if not path.exists():
        raise RuntimeLoadError(
            f"{path} is not there: {why}. "
            "Reinstall with: pip install --force-reinstall aoti-plugins"
        )
    return path
