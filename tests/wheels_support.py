"""Wheels for Linux, built by zig, and what comes from Debian and PyPI to try them with.

AOTI_PLUGINS_WHEEL_PARTS names a folder in which what is downloaded stays for the next run,
AOTI_PLUGINS_WHEEL a wheel for x86-64 that is built already.
"""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from support import ROOT

# Of the wheel that is built here.
PLATFORM = "manylinux_2_28_x86_64"
TOOLS = ROOT / "native" / "tools"


def tool(name: str) -> ModuleType:
    """A script of native/tools as a module."""
    if str(TOOLS) not in sys.path:
        sys.path.append(str(TOOLS))
    return importlib.import_module(name)


def parts(shared: Path) -> Path:
    """Where downloads go."""
    folder = Path(os.environ.get("AOTI_PLUGINS_WHEEL_PARTS", shared / "wheel_parts"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def need_zig_and_debian() -> None:
    """Skip where wheels for Linux cannot be built."""
    pytest.importorskip("ziglang", reason="zig is not installed: pip install ziglang")
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not here: GCC's C++ library comes from Debian's packages")


def find_build_programs() -> None:
    """CMake and Ninja of this environment are found first."""
    folder = str(Path(sys.executable).parent)
    os.environ["PATH"] = os.pathsep.join((folder, os.environ["PATH"]))
    for name in ("cmake", "ninja"):
        assert shutil.which(name), f"the tests need {name}: pip install {name}"


def debian_root(
    machine: str, folder: Path, packages: Sequence[str], sources: str | None = None
) -> Path:
    """A folder with packages of Debian for a machine, or a skip where they cannot be had.

    Args:
        machine: as Debian names it.
        folder: to unpack them to.
        packages: what to install.
        sources: a line of apt's lists of sources, where this system's do not have them.
    """
    if not (folder / ".unpacked").exists():
        folder.mkdir(parents=True, exist_ok=True)
        environment = dict(os.environ)
        if sources is not None:
            (folder / "sources.list").write_text(f"{sources}\n")
            environment["APT_SOURCES"] = str(folder / "sources.list")
        command = [str(ROOT / "tools" / "debian_root.sh"), machine, str(folder), *packages]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"no packages of Debian for {machine}: {done.stderr[-300:]}")
        (folder / ".unpacked").touch()
    return folder


def download(
    machine: str, folder: Path, requirements: Sequence[str], version: str = "3.11"
) -> list[Path]:
    """Wheels of these packages alone for a version of Python on a machine, or a skip."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / ".downloaded").exists():
        tags = [f"--platform=manylinux_2_{minor}_{machine}" for minor in (28, 27, 17)]
        options = ["--no-deps", "--only-binary=:all:", f"--python-version={version}", "-q", *tags]
        command = [sys.executable, "-m", "pip", "download", *options, "-d", str(folder)]
        done = subprocess.run(
            [*command, *requirements], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            pytest.skip(f"{requirements} for {machine} cannot be had: {done.stderr[-300:]}")
        (folder / ".downloaded").touch()
    return sorted(folder.glob("*.whl"))


def unpack(wheels: Sequence[Path], folder: Path) -> None:
    """Put wheels where Python for another machine finds them."""
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)


_CALL = """
import sys
import numpy
import aoti_plugins
from aoti_plugins.runtime import Program
with Program(sys.argv[1]) as program:
    (out,) = program(numpy.load(sys.argv[2]))
numpy.save(sys.argv[3], out)
assert "torch" not in sys.modules
print(aoti_plugins.__file__, "{}.{}".format(*sys.version_info))
"""


def runs_as_eager(
    python: Callable[..., subprocess.CompletedProcess[str]],
    program: Path,
    model: tuple[torch.nn.Module, tuple[torch.Tensor, ...]],
    folder: Path,
) -> tuple[str, str]:
    """Call a program by an interpreter that has the wheel, without torch; compare with PyTorch.

    Args:
        python: runs it with arguments.
        program: of one input and one result.
        model: what it was made of, and its input.
        folder: for arrays.

    Returns:
        Where the package was found, and the interpreter's version.
    """
    module, (x,) = model
    np.save(folder / "x.npy", x.numpy())
    done = python("-c", _CALL, program, folder / "x.npy", folder / "out.npy")
    assert done.returncode == 0, done.stderr
    with torch.no_grad():
        expected = module(x).numpy()
    np.testing.assert_allclose(np.load(folder / "out.npy"), expected, rtol=1e-4, atol=1e-5)
    file, version = done.stdout.split()
    return file, version


@dataclass(frozen=True)
class OtherPython:
    """Another version of Python for this machine, with the wheel and without torch.

    Args:
        version: as in "3.13".
        root: of a system that has it, whose C library and loader it runs with.
        site: its site-packages.
    """

    version: str
    root: Path
    site: Path

    def run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run that Python."""
        folders = [self.root / folder / "x86_64-linux-gnu" for folder in ("lib", "usr/lib")]
        libraries = [folder for folder in folders if folder.exists()]
        # That in lib64 may be a link to this machine's.
        loaders = (folder / "ld-linux-x86-64.so.2" for folder in libraries)
        loader = next(path for path in loaders if path.exists())
        variables = {
            "PYTHONHOME": str(self.root / "usr"),
            "PYTHONPATH": str(self.site),
            "AOTI_PLUGINS_LIBRARY_DIR": "",
        }
        return subprocess.run(
            [
                str(loader),
                "--library-path",
                ":".join(map(str, libraries)),
                str(self.root / "usr" / "bin" / f"python{self.version}"),
                *map(str, arguments),
            ],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **variables},
            cwd=self.site,  # not this checkout
            timeout=600,
        )
