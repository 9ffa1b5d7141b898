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
    if not (folder / "usr" / "include" / "c++" / "12").exists():
        run([str(DEBIAN_ROOT), DEBIAN_MACHINES[machine], str(folder), *PACKAGES])
    return folder


def unpack(wheel: Path, folder: Path) -> Path:
    """Return the folder ``executorch`` of a wheel, with its headers, libraries and CMake files."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.startswith(("executorch/include/", "executorch/lib/")):
                archive.extract(name, folder)
    return folder / "executorch"


def build(
    executorch: Path,
    output: Path,
    machine: str,
    *,
    root: Path | None = None,
    cuda: bool = True,
    jobs: int = os.cpu_count() or 1,
    defines: tuple[str, ...] = (),
) -> str | None:
    """Compile our libraries and install them into a folder.

    Args:
        executorch: wheel for the machine, or the folder that was unpacked from it.
        output: gets ``lib``, ``include`` and ``examples``.
        machine: ``"x86_64"`` or ``"aarch64"``.
        root: GCC's C++ library for the machine; None unpacks it for this build.
        cuda: with the delegate for CUDA and its kernels.
        jobs: compilers at a time.
        defines: more variables of CMake, as ``NAME=VALUE``.

    Returns:
        The nvcc that compiled CUDA's kernels; None where there are none.
    """
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary).resolve()
        if executorch.is_file():
            executorch = unpack(executorch, work)
        executorch = executorch.resolve()
        root = (root or make_root(machine, work / "root")).resolve()
        # Paths get into messages of asserts.
        hidden = {NATIVE: ".", executorch: "executorch", root: "root", work: "build"}
        flags = " ".join(f"-ffile-prefix-map={path}={name}" for path, name in hidden.items())
        settings = {
            "CMAKE_TOOLCHAIN_FILE": NATIVE / "cmake" / "linux_zig.cmake",
            "CMAKE_BUILD_TYPE": "Release",
            "CMAKE_INSTALL_PREFIX": output.resolve(),
            "AOTIP_ZIG": find_zig(),
            "AOTIP_MACHINE": machine,
            "AOTIP_DEBIAN_ROOT": root,
            "AOTIP_BUILD_TESTS": "OFF",
            "AOTIP_OPERATOR_TESTS": "OFF",
            "AOTIP_CUDA": "ON" if cuda else "OFF",
            "Python3_EXECUTABLE": sys.executable,
            "executorch_DIR": executorch / "lib" / "cmake" / "executorch",
        }
        chosen = [f"-D{name}={value}" for name, value in settings.items()]
        chosen += [f"-D{define}" for define in defines]
        folder = str(work / "build")
        run(["cmake", "-S", str(NATIVE), "-B", folder, "-G", "Ninja", *chosen], CXXFLAGS=flags)
        run(["cmake", "--build", folder, "--parallel", str(jobs)])
        run(["cmake", "--install", folder])
        return _cached(work / "build" / "CMakeCache.txt", "AOTIP_NVCC")


def _cached(cache: Path, name: str) -> str | None:
    """A variable that CMake has found."""
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
    root = make_root(options.machine, options.root) if options.root else None
    cuda = not options.without_cuda
    build(
        options.executorch, options.output, options.machine, root=root, cuda=cuda, jobs=options.jobs
    )


if __name__ == "__main__":
    main()
