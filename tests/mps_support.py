"""Metal's stand-in for the tests of programs for Apple GPUs.

It runs what a Mac would: the same wrapper, linked for this system instead of macOS, the same
runtime, and the same Metal source, compiled for the CPU. See native/tests/metal_host/.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

from filelock import FileLock
from support import ROOT

from aoti_plugins.hooks import hookimpl
from aoti_plugins.native_files import has_library, library
from aoti_plugins.types import Target

METAL_HOST = ROOT / "native" / "tests" / "metal_host"
SCHEDULES = ("forward", "reverse", "shuffle")
NO_OPERATORS = "libmps_operators.so is not built: configure native/ with AOTIP_OPERATOR_TESTS=ON"


class HostTarget:
    """A plugin with a target that no Mac is: this machine."""

    @hookimpl
    def aoti_targets(self, device: str) -> tuple[Target, ...]:
        """The machine that the tests run on."""
        machine = platform.machine()
        target = Target("host", "mps", machine, properties={"cxx_flags": ()})
        return (target,) if device == "mps" else ()


def stand_in(folder: Path) -> dict[str, str]:
    """The environment variables under which the runtime uses the stand-in, built where it is not.

    Args:
        folder: for the stand-in and for what it compiles; processes may share it.
    """
    library = folder / "libmetal_stand_in.so"
    with FileLock(f"{library}.lock"):
        if not library.exists():
            build_stand_in(library)
    return {
        "AOTI_PLUGINS_METAL": str(library),
        "AOTI_PLUGINS_METAL_COMPILER": f"{sys.executable} {METAL_HOST / 'compile.py'}",
        "AOTI_PLUGINS_METAL_CACHE": str(folder / "metal"),
    }


def operators_library() -> Path | None:
    """The library of operators for tests, beside the libraries in use or where they were built."""
    name = "libmps_operators.so"
    if has_library(name):
        return library(name)
    return next((ROOT / "build").glob(f"*/{name}"), None)


def build_stand_in(library: Path) -> None:
    """Compile the stand-in, in one step and atomically."""
    sources = sorted((METAL_HOST / "stand_in").glob("*.cpp"))
    built = library.with_name(f"{library.name}.{os.getpid()}")
    command = ["g++", "-std=c++17", "-O1", "-g1", "-fPIC", "-shared", *map(str, sources)]
    subprocess.run(
        [*command, f"-I{METAL_HOST / 'stand_in'}", "-o", str(built), "-ldl", "-lpthread"],
        check=True,
    )
    built.rename(library)
