"""Packages that ``aoti-plugins new-plugin`` made, built as sdists and installed by pip."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner
from filelock import FileLock

from aoti_plugins.cli.app import app

# A backend writes its sdist to a folder and returns the file's name.
_SDIST = """
import importlib, sys
print(importlib.import_module(sys.argv[1]).build_sdist(sys.argv[2]))
"""
_BACKENDS = {
    "python": "setuptools.build_meta",
    "triton": "setuptools.build_meta",
    "native": "scikit_build_core.build",
}


@dataclass(frozen=True)
class Package:
    """One package: its sources, and the folder that it was installed in."""

    sources: Path
    site: Path

    def environment(self, **more: str) -> dict[str, str]:
        """An environment in which the package is installed, beside what is anyhow."""
        return without_packages(PYTHONPATH=str(self.site), **more)


def without_packages(**more: str) -> dict[str, str]:
    """An environment without the packages of these tests."""
    hidden = ("PYTHONPATH", "AOTI_PLUGINS_BLOCK", "LD_LIBRARY_PATH")
    return {k: v for k, v in os.environ.items() if k not in hidden} | more


@pytest.fixture(scope="session")
def new_package(shared_dir: Path) -> Callable[[str], Package]:
    """``new_package("native")`` is the package ``other-native``, made and installed once a run."""

    def package(kind: str) -> Package:
        folder = shared_dir / f"other_{kind}"
        made = Package(folder / "sources", folder / "site")
        with FileLock(f"{folder}.lock"):
            if not made.site.exists():
                _make(kind, made)
        return made

    return package


def _make(kind: str, package: Package) -> None:
    command = ["new-plugin", f"other-{kind}", "--kind", kind, "--output", str(package.sources)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    sdists = package.sources.parent / "dist"
    sdists.mkdir()
    printed = _run([sys.executable, "-c", _SDIST, _BACKENDS[kind], str(sdists)], package.sources)
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    install += ["--no-build-isolation", "--target", str(package.site)]
    _run([*install, str(sdists / printed.split()[-1])], sdists)


def _run(command: list[str], folder: Path) -> str:
    # PyPI's CMake and Ninja lie beside the interpreter.
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    done = subprocess.run(
        command,
        cwd=folder,
        env=without_packages(PATH=path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout
