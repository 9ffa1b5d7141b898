"""Our libraries for macOS, linked here against the macOS wheel of executorch.

AOTI_PLUGINS_MACOS_EXECUTORCH and AOTI_PLUGINS_METAL_CPP name wheels, or what was unpacked from
them, that are otherwise downloaded; AOTI_PLUGINS_MACOS_LIBRARIES names a folder with libraries that
are built already.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import lief
import pytest
from support import ROOT

NATIVE = ROOT / "native"
BACKEND = "libexecutorch_backend_aoti_mps.dylib"
RUNNER = "libaoti_plugins_runner.dylib"
PLATFORM = "macosx_14_0_arm64"


def download(variable: str, requirement: str, folder: Path) -> Path:
    """Return the wheel that a variable names, or that the package index has."""
    if path := os.environ.get(variable):
        return Path(path)
    options = ["--no-deps", "--only-binary=:all:", "--python-version=3.12", "--platform", PLATFORM]
    command = [sys.executable, "-m", "pip", "download", *options, "-d", str(folder), requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"{requirement} for macOS is not on this machine's index: {done.stderr[-300:]}")
    (wheel,) = folder.glob("*.whl")
    return wheel


def run_tool(name: str, *arguments: object) -> str:
    """Run a script of native/tools as documented; returns what it printed."""
    command = [sys.executable, str(NATIVE / "tools" / name), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def read_library(path: Path) -> lief.MachO.Binary:
    """A library for one machine."""
    lief.logging.disable()
    parsed = lief.MachO.parse(path)
    assert parsed is not None
    assert len(parsed) == 1
    return parsed.at(0)


def exported(library: lief.MachO.Binary) -> set[str]:
    """The symbols that a library offers, without the marks that zig's linker leaves in each."""
    names = {str(symbol.name) for symbol in library.exported_symbols}
    return names - {"__mh_dylib_header", "___dso_handle"}


def imported(library: lief.MachO.Binary) -> dict[str, str]:
    """The symbols that a library takes, each with the library that it takes it from."""
    return {
        str(binding.symbol.name): str(binding.library.name)
        for binding in library.bindings
        if binding.symbol is not None and binding.library is not None
    }
