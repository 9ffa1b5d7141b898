"""Build our libraries for Linux with glibc 2.28 or newer, on any Debian machine.

Run as ``python native/tools/build_linux.py EXECUTORCH FOLDER --machine aarch64``. EXECUTORCH is the
wheel of executorch for that machine, as a file or as the folder ``executorch`` that was unpacked
from it: ``pip download executorch==1.5.* --no-deps --only-binary=:all: --python-version 3.12
--platform manylinux_2_28_aarch64`` gets one. FOLDER gets ``lib``, ``include`` and ``examples``, as
an installed package has them.

The compiler is zig, from ``pip install ziglang``; what it takes of GCC's C++ library is unpacked
from Debian's packages by ``tools/debian_root.sh``, or is in the folder that ``--root`` names. CMake
and Ninja have to be on the path, as ``pip install cmake ninja`` puts them; CUDA's kernels need
nvcc. Equal sources give equal bytes.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shlex
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

NATIVE = Path(__file__).resolve().parents[1]
DEBIAN_ROOT = NATIVE.parent / "tools" / "debian_root.sh"
DEBIAN_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
# What the toolchain file takes, and the text of Eigen's licence.
PACKAGES = ("libstdc++-12-dev", "base-files")
# What CMake finds executorch by, in its wheel.
NEEDED = ("executorch/include/", "executorch/lib/", "executorch/share/cmake/")


def run(command: list[str], **variables: str) -> None:
    """Run a command; what it said is the error where it fails."""
    environment = {**os.environ, **variables}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        raise SystemExit(f"{shlex.join(command)}\n{done.stdout}{done.stderr}")


def find_zig() -> Path:
    """Return the program of PyPI's ziglang."""
    package = importlib.util.find_spec("ziglang")
    if package is None or package.origin is None:
        raise SystemExit("zig is not here: pip install ziglang")
    return Path(package.origin).with_name("zig")


def make_root(machine: str, folder: Path) -> Path:
    """Return a folder with GCC's C++ library for a machine, unpacking it where it is not there."""
    done = folder / ".unpacked"
    if not done.exists():
        run([str(DEBIAN_ROOT), DEBIAN_MACHINES[machine], str(folder), *PACKAGES])
        done.touch()
    return folder


def unpack(wheel: Path, folder: Path) -> Path:
    """Return the folder ``executorch`` of a wheel, with its headers, libraries and CMake files."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.startswith(NEEDED):
                archive.extract(name, folder)
    return folder / "executorch"


def toolchain(machine: str, root: Path) -> dict[str, str | Path]:
    """The variables of CMake by which a program is built for a machine, not ours alone."""
    return {
        "CMAKE_TOOLCHAIN_FILE": NATIVE / "cmake" / "linux_zig.cmake",
        "CMAKE_BUILD_TYPE": "Release",
        "AOTIP_ZIG": find_zig(),
        "AOTIP_MACHINE": machine,
        "AOTIP_DEBIAN_ROOT": root.resolve(),
    }


def configure(source: Path, folder: Path, settings: dict[str, str | Path], flags: str = "") -> None:
    """Make a build folder of CMake's."""
    chosen = [f"-D{name}={value}" for name, value in settings.items()]
    run(["cmake", "-S", str(source), "-B", str(folder), "-G", "Ninja", *chosen], CXXFLAGS=flags)


def configure_libraries(
    executorch: Path, folder: Path, machine: str, root: Path, settings: dict[str, str | Path]
) -> None:
    """Make a build folder of our libraries.

    Args:
        executorch: the folder that was unpacked from the wheel for the machine.
        folder: to build in.
        machine: ``"x86_64"`` or ``"aarch64"``.
        root: GCC's C++ library for the machine.
        settings: more variables of CMake.
    """
    executorch, root, folder = executorch.resolve(), root.resolve(), folder.resolve()
    # Paths get into messages of asserts.
    hidden = {NATIVE: ".", executorch: "executorch", root: "root", folder: "build"}
    flags = " ".join(f"-ffile-prefix-map={path}={name}" for path, name in hidden.items())
    chosen = {
        **toolchain(machine, root),
        "AOTIP_BUILD_TESTS": "OFF",
        "AOTIP_OPERATOR_TESTS": "OFF",
        "Python3_EXECUTABLE": sys.executable,
        "executorch_DIR": executorch / "lib" / "cmake" / "executorch",
    }
    configure(NATIVE, folder, {**chosen, **settings}, flags)


def build(
    executorch: Path, output: Path, machine: str, root: Path, *, cuda: bool, jobs: int
) -> str | None:
    """Compile our libraries and install them into a folder.

    Args:
        executorch: wheel for the machine, or the folder that was unpacked from it.
        output: gets ``lib``, ``include`` and ``examples``.
        machine: ``"x86_64"`` or ``"aarch64"``.
        root: GCC's C++ library for the machine.
        cuda: with the delegate for CUDA and its kernels.
        jobs: compilers at a time.

    Returns:
        The nvcc that compiled CUDA's kernels; None where there are none.
    """
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        if executorch.is_file():
            executorch = unpack(executorch, work)
        settings = {
            "CMAKE_INSTALL_PREFIX": output.resolve(),
            "AOTIP_CUDA": "ON" if cuda else "OFF",
            # Not rewritten when installed: that leaves bytes behind.
            "CMAKE_BUILD_WITH_INSTALL_RPATH": "ON",
        }
        folder = work / "build"
        configure_libraries(executorch, folder, machine, root, settings)
        run(["cmake", "--build", str(folder), "--parallel", str(jobs)])
        run(["cmake", "--install", str(folder)])
        return cached(folder / "CMakeCache.txt", "AOTIP_NVCC")


def cached(cache: Path, name: str) -> str | None:
    """A variable that CMake has found; None where it is not there or was not found."""
    match = re.search(rf"^{name}:\w+=(.*)$", cache.read_text(), re.MULTILINE)
    return match[1] if match and not match[1].endswith("NOTFOUND") else None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what a build is told."""
    parser.add_argument("executorch", type=Path, help="wheel, or the folder unpacked from it")
    parser.add_argument("output", type=Path, help="folder to write to")
    parser.add_argument("--machine", choices=tuple(DEBIAN_MACHINES), default="aarch64")
    parser.add_argument("--root", type=Path, help="made by tools/debian_root.sh; kept")
    parser.add_argument("--without-cuda", action="store_true", help="leave out CUDA's delegate")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)


def main() -> None:
    """Build what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add_arguments(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        root = make_root(options.machine, options.root or Path(temporary) / "root")
        build(
            options.executorch,
            options.output,
            options.machine,
            root,
            cuda=not options.without_cuda,
            jobs=options.jobs,
        )


if __name__ == "__main__":
    main()
