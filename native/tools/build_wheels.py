"""Build wheels that need no compiler to install: ``make wheels``.

Run as ``python native/tools/build_wheels.py FOLDER [PLATFORM ...]`` on a Debian machine, in an
environment with scikit-build-core 1.0 or newer, zopflipy, ziglang, cmake, ninja and cmeel-eigen;
CUDA's kernels need nvcc. Each wheel is built against the executorch wheel of its platform, which
pip downloads. ``build_linux.py`` and ``build_macos.py`` say how libraries are built,
``pack_wheel.py`` what else is in a wheel.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import build_linux
import build_macos
import wheel_components
from pack_wheel import PROJECT, pack

REQUIREMENT = "executorch==1.5.*"
MACOS = "14.0"  # that of executorch's own wheels
GPUS = "AOTIP_CUDA_GPUS"  # for what a build of the native code makes kernels, instead of for all
GLIBC_VERSIONS = PROJECT / "tools" / "glibc_versions.py"


@dataclass(frozen=True)
class Build:
    """What all wheels of one call are built with."""

    output: Path
    work: Path  # what is downloaded is kept here
    cuda: bool
    jobs: int


def download_executorch(platform: str, folder: Path) -> Path:
    """Return the executorch wheel for a platform, downloading it where it is not there."""
    pattern = f"executorch-*{platform}.whl"
    if not any(folder.glob(pattern)):
        options = ["--no-deps", "--only-binary=:all:", "--python-version=3.12", "--quiet"]
        command = [sys.executable, "-m", "pip", "download", *options, "--platform", platform]
        build_linux.run([*command, "-d", str(folder), REQUIREMENT])
    return max(folder.glob(pattern))


def linux_wheel(machine: str, platform: str, build: Build) -> Path:
    """Build the wheel for a kind of Linux machine."""
    executorch = download_executorch(platform, build.work)
    root = build_linux.make_root(machine, build.work / f"root-{machine}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        package = folder / "package"
        nvcc = build_linux.build(
            executorch, package, machine, root, cuda=build.cuda, jobs=build.jobs
        )
        components = [
            wheel_components.executorch(executorch, folder),
            wheel_components.eigen(root),
            wheel_components.gcc(root),
            *([wheel_components.cuda(nvcc)] if nvcc else []),
        ]
        contents = {path: path.name for path in sorted(package.iterdir())}
        wheel = pack(contents, build.output, platform, components)
    build_linux.run([sys.executable, str(GLIBC_VERSIONS), str(wheel)])
    return wheel


def macos_wheel(machine: str, platform: str, build: Build) -> Path:
    """Build the wheel for a kind of Mac."""
    executorch = download_executorch(platform, build.work)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        libraries = folder / "lib"
        compiler = build_macos.default_compiler(machine, MACOS)
        build_macos.build(executorch, libraries, compiler, build.jobs)
        components = [
            wheel_components.executorch(executorch, folder),
            wheel_components.zig_runtime(),
            *wheel_components.libcxx(),
        ]
        return pack(macos_contents(libraries), build.output, platform, components)


def macos_contents(libraries: Path) -> dict[Path, str]:
    """What a wheel for Macs has, by its place: not what C++ programs are built with there."""
    return {
        build_macos.NATIVE / "include" / "aoti_plugins": "include/aoti_plugins",
        PROJECT / "examples" / "plugins": "examples",
        **{path: f"lib/{path.name}" for path in sorted(libraries.glob("*.dylib"))},
    }


PLATFORMS: dict[str, tuple[Callable[[str, str, Build], Path], str]] = {
    "manylinux_2_28_x86_64": (linux_wheel, "x86_64"),
    "manylinux_2_28_aarch64": (linux_wheel, "aarch64"),
    f"macosx_{MACOS.replace('.', '_')}_arm64": (macos_wheel, "arm64"),
}


def main() -> None:
    """Build what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("output", type=Path, help="folder to write to")
    parser.add_argument(
        "platforms", nargs="*", metavar="PLATFORM", help=f"all, or of {', '.join(PLATFORMS)}"
    )
    parser.add_argument("--without-cuda", action="store_true", help="leave out CUDA's delegate")
    parser.add_argument("--work", type=Path, default=PROJECT / "build" / "wheels")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    platforms = options.platforms or list(PLATFORMS)
    if unknown := sorted(set(platforms) - set(PLATFORMS)):
        parser.error(f"no wheel is made for {', '.join(unknown)}; only for {', '.join(PLATFORMS)}")
    if not options.without_cuda and GPUS in os.environ:
        parser.error(f"wheels have kernels for all GPUs, but {GPUS} is set; unset it")
    output, work = options.output.resolve(), options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    build = Build(output, work, cuda=not options.without_cuda, jobs=options.jobs)
    for platform in platforms:
        make, machine = PLATFORMS[platform]
        wheel = make(machine, platform, build)
        print(f"{wheel}: {wheel.stat().st_size} bytes", flush=True)


if __name__ == "__main__":
    main()
