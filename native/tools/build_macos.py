"""Build our libraries for macOS, on any machine.

``libexecutorch_backend_aoti_mps.dylib`` is the runtime for Apple GPUs,
``libaoti_plugins_runner.dylib`` the C interface to load and run programs. Run as ``python
native/tools/build_macos.py EXECUTORCH FOLDER``. EXECUTORCH is the macOS wheel of executorch, as a
file or as the folder ``executorch`` that was unpacked from it: ``pip download executorch==1.5.*
--no-deps --only-binary=:all: --python-version 3.12 --platform macosx_14_0_arm64`` gets one. The
compiler is zig, from ``pip install ziglang``, or what ``--compiler`` names, for instance ``clang++
-arch arm64`` on a Mac. Equal sources give equal bytes.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

NATIVE = Path(__file__).resolve().parents[1]
BACKEND = "libexecutorch_backend_aoti_mps.dylib"
RUNNER = "libaoti_plugins_runner.dylib"
BACKEND_FOLDERS = ("slim", "shim", "ops", "delegate", "mps")
RUNNER_FOLDERS = ("slim", "runner", "generation")
# What all devices share of the CPU's.
HOST_MEMORY = tuple(Path(f"src/cpu/memory/{name}.cpp") for name in ("cpu_device", "kept_blocks"))
SHARED = (*HOST_MEMORY, Path("src/cpu/ops/index_put.cpp"))
# Both libraries have a C++ library inside.
NEW_DELETE = Path("src/delegate/new_delete_darwin.cpp")
LEFT_OUT = "delegate/backend.cpp"  # the CPU delegate's registration
FLAGS = (
    "-std=c++17 -O2 -g0 -fPIC -fvisibility=hidden -fvisibility-inlines-hidden"
    " -fvisibility-global-new-delete=force-hidden -ffunction-sections"
    " -Wall -Wextra -Werror -Wno-unused-parameter -DAOTI_PLUGINS_RUNTIME -DAOTIP_ONE_LIBRARY"
    " -DAOTIP_WITHOUT_CPU_KERNELS -DC10_USING_CUSTOM_GENERATED_MACROS -DET_EVENT_TRACER_ENABLED"
)


@dataclass(frozen=True)
class Toolchain:
    """A compiler for macOS, and the executorch that is built against."""

    compiler: tuple[str, ...]
    include: Path
    library: Path

    def run(self, *arguments: str | Path) -> None:
        """Call the compiler in the folder of the native sources, so that no path depends on it."""
        command = [*self.compiler, *map(str, arguments)]
        done = subprocess.run(command, cwd=NATIVE, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{shlex.join(command)}\n{done.stdout}{done.stderr}")

    def compile(self, source: Path, output: Path) -> None:
        """Compile one file of C++, named relative to the native sources or absolutely."""
        prefix = f"-ffile-prefix-map={output.parent}=."
        portable = self.include / "executorch" / "runtime" / "core" / "portable_type" / "c10"
        includes = ("-Isrc", "-Iinclude", "-isystem", self.include, "-isystem", portable)
        self.run(*FLAGS.split(), prefix, *includes, "-c", source, "-o", output)

    def link(self, inputs: Sequence[Path], output: Path) -> None:
        """Link a library with a relative name and run path."""
        rpaths = ("@loader_path", "@loader_path/../../executorch/lib")
        options = [f"-Wl,-install_name,@rpath/{output.name}"]
        options += [f"-Wl,-rpath,{path}" for path in rpaths]
        self.run("-shared", "-s", "-Wl,-dead_strip", *options, *inputs, self.library, "-o", output)


def sources(folders: Sequence[str]) -> list[Path]:
    """List the files of macOS in folders of ``src``, relative to the native sources."""
    found: list[Path] = []
    for folder in folders:
        for path in sorted((NATIVE / "src" / folder).rglob("*.cpp")):
            part = path.relative_to(NATIVE / "src").as_posix()
            if not part.endswith("_linux.cpp") and part != LEFT_OUT:
                found.append(path.relative_to(NATIVE))
    return found


def embed_shaders(folder: Path) -> Iterator[Path]:
    """Write the Metal sources as C++, as cmake/embed_metal.cmake does."""
    for shader in sorted((NATIVE / "src" / "mps" / "kernels").glob("*.metal")):
        name, text = shader.stem, shader.read_text()
        if ')metal"' in text:
            raise SystemExit(f"{shader} has the text that ends it as a string of C++")
        output = folder / f"metal_{name}.cpp"
        output.write_text(
            f'#include "mps/driver/kernel.h"\nnamespace aoti_plugins::mps {{\n'
            f"extern const MetalSource metal_{name};\n"
            f'const MetalSource metal_{name} = {{"{name}", R"metal({text})metal"}};\n}}\n'
        )
        yield output


def unpack(wheel: Path, folder: Path) -> Path:
    """Return the folder ``executorch`` of a wheel, with the headers and the runtime's library."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.startswith("executorch/include/") or name.endswith("lib/libexecutorch.dylib"):
                archive.extract(name, folder)
    return folder / "executorch"


def default_compiler(arch: str, macos: str) -> str:
    """Return zig's compiler for a kind of Mac."""
    cpu = {"arm64": "aarch64", "x86_64": "x86_64"}[arch]
    return shlex.join([sys.executable, "-m", "ziglang", "c++", "-target", f"{cpu}-macos.{macos}"])


def build(executorch: Path, output: Path, compiler: str, jobs: int) -> None:
    """Compile and link the libraries into a folder."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if executorch.is_file():
            executorch = unpack(executorch, folder)
        library = (executorch / "lib" / "libexecutorch.dylib").resolve()
        include = (executorch / "include").resolve()
        for needed in (library, include / "executorch"):
            if not needed.exists():
                raise SystemExit(f"{needed} is not there: give the macOS wheel of executorch")
        toolchain = Toolchain(tuple(shlex.split(compiler)), include, library)
        backend = [*SHARED, *sources(BACKEND_FOLDERS), *embed_shaders(folder)]
        runner = [NEW_DELETE, *HOST_MEMORY, *sources(RUNNER_FOLDERS)]
        objects = compile_all(toolchain, dict.fromkeys([*backend, *runner]), folder, jobs)
        output = output.resolve()
        output.mkdir(parents=True, exist_ok=True)
        toolchain.link([objects[unit] for unit in backend], output / BACKEND)
        toolchain.link([*(objects[unit] for unit in runner), output / BACKEND], output / RUNNER)


def compile_all(
    toolchain: Toolchain, units: Iterable[Path], folder: Path, jobs: int
) -> dict[Path, Path]:
    """Compile files of C++; returns the object of each, in the folder."""
    objects = {
        unit: folder / f"{unit.stem if unit.is_absolute() else '_'.join(unit.parts)}.o"
        for unit in units
    }
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(toolchain.compile, objects.keys(), objects.values()))
    return objects


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what a build is told."""
    parser.add_argument("executorch", type=Path, help="wheel, or the folder unpacked from it")
    parser.add_argument("output", type=Path, help="folder to write to")
    parser.add_argument("--arch", choices=("arm64", "x86_64"), default="arm64")
    parser.add_argument("--macos", default="12.0", help="oldest macOS that it runs on")
    parser.add_argument("--compiler", help="compiler for macOS with its flags, in place of zig")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)


def build_as(options: argparse.Namespace, output: Path) -> None:
    """Build what the command line says into a folder."""
    compiler = options.compiler or default_compiler(options.arch, options.macos)
    build(options.executorch, output, compiler, options.jobs)


def main() -> None:
    """Build what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add_arguments(parser)
    options = parser.parse_args()
    build_as(options, options.output)


if __name__ == "__main__":
    main()
