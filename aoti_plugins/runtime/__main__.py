"""Prints where the parts for C++ builds are: ``python -m aoti_plugins.runtime --cmake-dir``."""

from __future__ import annotations

import argparse
import sys

from aoti_plugins.errors import AotiPluginsError
from aoti_plugins.native_files import RUNNER, library
from aoti_plugins.runtime import cmake_dir, executorch_library_dir


def main() -> int:
    """Print one path per option, each on its line, in the order of the options below."""
    parser = argparse.ArgumentParser(prog="python -m aoti_plugins.runtime", description=__doc__)
    parser.add_argument(
        "--cmake-dir", action="store_true", help="folder to pass to CMake as aoti_plugins_DIR"
    )
    parser.add_argument(
        "--library-dir", action="store_true", help="folder of the delegate and the runner"
    )
    parser.add_argument(
        "--executorch-cmake-dir", action="store_true", help="folder to pass as executorch_DIR"
    )
    chosen = parser.parse_args()
    wanted = {
        "cmake_dir": cmake_dir,
        "library_dir": lambda: library(RUNNER).parent,
        "executorch_cmake_dir": lambda: executorch_library_dir() / "cmake" / "executorch",
    }
    options = [name for name in wanted if getattr(chosen, name)]
    if not options:
        parser.error("choose at least one option")
    try:
        for name in options:
            print(wanted[name]())
    except AotiPluginsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
