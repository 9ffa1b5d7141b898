"""Find Zig, which brings a C++ compiler, headers, and a linker for macOS to any machine.

It is PyPI's package ``ziglang``. What it compiles once per target, its C++ library, it keeps in a
cache of its own; it lies in ours.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from aoti_plugins.errors import LoweringError
from aoti_plugins.lowering.artifacts.cache_folder import CACHE_DIR_VARIABLE, private_folder

_INSTALL = "pip install 'aoti-plugins[mps]'"


def zig_compiler() -> list[str]:
    """The command of Zig's C++ compiler.

    Raises:
        LoweringError: Zig is not installed; the message says how to.
    """
    spec = importlib.util.find_spec("ziglang")
    for folder in (spec and spec.submodule_search_locations) or ():
        for name in ("zig", "zig.exe"):
            if (Path(folder) / name).exists():
                return ["env", *_cache_variables(), str(Path(folder) / name), "c++"]
    raise LoweringError(
        "lowering for MPS links its code with Zig, and PyPI's package ziglang is not installed: "
        f"{_INSTALL}"
    )


def _cache_variables() -> list[str]:
    try:
        folder = private_folder("zig")
    except OSError as error:
        raise LoweringError(
            f"Zig needs a cache, and ours cannot be written: {error}. "
            f"Set {CACHE_DIR_VARIABLE} to a folder that can."
        ) from error
    return [f"ZIG_GLOBAL_CACHE_DIR={folder}", f"ZIG_LOCAL_CACHE_DIR={folder}"]
