"""Build the wheel of aoti_plugins for macOS, on any machine.

Run as ``python native/tools/build_macos_wheel.py EXECUTORCH FOLDER``, with what ``build_macos.py``
needs, in an environment with scikit-build-core 1.0 or newer. The wheel holds the Python sources,
our headers, the examples of plugins, and the two libraries that ``build_macos.py`` makes.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import build_macos
import scikit_build_core.build

PROJECT = build_macos.NATIVE.parent


def build_wheel(libraries: Path, output: Path, platform: str) -> Path:
    """Pack the package with the libraries of a folder; returns the wheel's path."""
    # As CMake installs it, but for what C++ programs are built with there.
    added = {
        build_macos.NATIVE / "include" / "aoti_plugins": "aoti_plugins/include/aoti_plugins",
        PROJECT / "examples" / "plugins": "aoti_plugins/examples",
        **{path: f"aoti_plugins/lib/{path.name}" for path in sorted(libraries.glob("*.dylib"))},
    }
    settings: dict[str, str | list[str]] = {
        "wheel.cmake": "false",  # that would build for this machine
        "wheel.platlib": "true",
        "wheel.tags": [f"py3-none-{platform}"],
        **{f"wheel.force-include.{source}": target for source, target in added.items()},
    }
    output.mkdir(parents=True, exist_ok=True)
    output = output.resolve()
    os.chdir(PROJECT)
    return output / scikit_build_core.build.build_wheel(str(output), settings)


def main() -> None:
    """Build what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    build_macos.add_arguments(parser)
    # That of executorch's own wheels.
    parser.set_defaults(macos="14.0")
    options = parser.parse_args()
    platform = f"macosx_{options.macos.replace('.', '_')}_{options.arch}"
    with tempfile.TemporaryDirectory() as folder:
        build_macos.build_as(options, Path(folder))
        print(build_wheel(Path(folder), options.output, platform))


if __name__ == "__main__":
    main()
