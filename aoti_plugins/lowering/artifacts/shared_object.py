"""Compile generated C++ into a shared object: the blob of one target.

The blob is small (no line tables, sections collected, only the AOTInductor interface exported),
portable (built for the target's instruction set, not this host's) and bound to our runtime alone:
the shims' linker names are redefined by ``blob_prelude.h``, so no libtorch in the same process
can answer for them.
"""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch.utils.cpp_extension import include_paths

from aoti_plugins.errors import LoweringError
from aoti_plugins.lowering.artifacts import elf, zig
from aoti_plugins.lowering.artifacts.compile_cache import cached_blob, compiled_object, precompiled
from aoti_plugins.lowering.artifacts.compiler import (
    begun_for_each,
    compiler_identity,
    for_each,
    is_clang,
    run,
)
from aoti_plugins.lowering.artifacts.cxx import cxx_compiler
from aoti_plugins.lowering.artifacts.stand_in import library_for
from aoti_plugins.lowering.inductor.capture import GeneratedCode
from aoti_plugins.lowering.inductor.model_interface import split_wrapper

# Must match native/include/aoti_plugins/shim_link_names.h.
LINK_NAME_PREFIX = "aotip_"

_DEFINES = (
    "-DTORCH_INDUCTOR_CPP_WRAPPER",
    "-DSTANDALONE_TORCH_HEADER",
    "-DC10_USING_CUSTOM_GENERATED_MACROS",
    "-DNDEBUG",
)
_COMMON_FLAGS = (
    "-std=c++20",
    "-fPIC",
    "-fvisibility=hidden",
    "-ffunction-sections",
    "-w",
)
_GNU_FLAGS = ("-fno-gnu-unique",)
# Zig would keep frame pointers.
_CLANG_FLAGS = ("-fomit-frame-pointer",)
_WRAPPER_FLAGS = ("-O1",)
# Eager PyTorch neither contracts nor reassociates, so neither do the kernels; errno and traps have
# no reader.
_KERNEL_FLAGS = (
    "-O3",
    "-fopenmp",
    "-ffp-contract=off",
    "-fno-trapping-math",
    "-fno-math-errno",
)
# A last call does not take the place of its function: GCC 13 wrote its vectors over the function's
# arguments, as if these were aligned for vectors.
_GNU_KERNEL_FLAGS = ("-fno-tree-loop-vectorize", "-fno-optimize-sibling-calls")
_LINK_FLAGS = (
    "-shared",
    "-Wl,--gc-sections",
    "-Wl,-z,relro",
    "-Wl,-z,defs",
    "-Wl,--hash-style=gnu",
    "-Wl,--build-id=none",
)
# What the start files of gcc do and Zig has none of: when the blob is unloaded, what its static
# objects asked for happens then, and not when the process ends.
_UNLOADING = """\
extern "C" {
extern __attribute__((visibility("hidden"))) void* __dso_handle;
void __cxa_finalize(void*);
__attribute__((destructor)) static void unload() { __cxa_finalize(&__dso_handle); }
}
"""
# The wrapper's container asks for weights inside the blob before it is given those beside it.
NO_CONSTANTS = """\
__attribute__((visibility("hidden"))) unsigned char _binary_constants_bin_start[16] = {};
__attribute__((visibility("hidden"))) unsigned char _binary_constants_bin_end[16] = {};
"""
_EXPORTS = "{ global: AOTInductor*; local: *; };\n"

_WRAPPER_HEADERS = (
    "aoti_plugins/blob_model_base.h",
    "torch/csrc/inductor/aoti_include/{device}.h",
    "torch/csrc/inductor/aoti_runtime/interface.h",
    "torch/csrc/inductor/aoti_runtime/model_container.h",
    "aoti_plugins/blob_tables.h",
    # The wrapper declares kernels; PyTorch before 2.13 leaves their types of 8 bits out.
    "torch/headeronly/util/Float8_e4m3fn.h",
    "torch/headeronly/util/Float8_e4m3fnuz.h",
    "torch/headeronly/util/Float8_e5m2.h",
    "torch/headeronly/util/Float8_e5m2fnuz.h",
)
_KERNEL_HEADERS = ("torch/csrc/inductor/cpp_prefix.h",)


@dataclass(frozen=True)
class BlobHeaders:
    """What the C++ of a device's blobs is compiled with.

    Attributes:
        preludes: our headers that every file of a blob includes first; they redefine linker names.
        include_dirs: folders of headers beside torch's and ours.
        defines: macros, ``NAME`` or ``NAME=VALUE``.
    """

    preludes: tuple[str, ...] = ("aoti_plugins/blob_prelude.h",)
    include_dirs: tuple[Path, ...] = ()
    defines: tuple[str, ...] = ()


class Images(Mapping[str, bytes]):
    """GPU kernels to embed, by symbol, each made when it is first asked for.

    Args:
        make: makes them.
    """

    def __init__(self, make: Mapping[str, Callable[[], bytes]]) -> None:
        self._make = make
        self._made: dict[str, bytes] = {}

    def __getitem__(self, symbol: str) -> bytes:
        if symbol not in self._made:
            self._made[symbol] = self._make[symbol]()
        return self._made[symbol]

    def __iter__(self) -> Iterator[str]:
        return iter(self._make)

    def __len__(self) -> int:
        return len(self._make)


@dataclass(frozen=True)
class SharedObjectBuild:
    """How to compile one partition for one target.

    Attributes:
        device: PyTorch's name for the device; selects torch's wrapper header.
        machine: the target's, for instance ``"x86_64"``.
        target_flags: compiler flags of the target's instruction set, for the kernels; gcc's.
        runtime_libraries: the delegate's libraries, which the blob needs by soname.
        include_dir: folder of our headers.
        headers: what else it is compiled with.
        images: GPU kernels to embed, as the driver loads them, by symbol.
        objects: object files that hooks want linked in.
        libraries: further libraries that the blob needs.
        debug_info: keep symbols and line tables.
    """

    device: str
    machine: str
    target_flags: tuple[str, ...]
    runtime_libraries: tuple[Path, ...]
    include_dir: Path
    headers: BlobHeaders = BlobHeaders()
    images: Mapping[str, bytes] = field(default_factory=dict)
    objects: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    debug_info: bool = False


@dataclass(frozen=True)
class SharedObject:
    """A compiled blob.

    Attributes:
        data: the file's bytes.
        machine: for instance ``"x86_64"`` or ``"arm64-apple-macos"``.
        shims: C shims that it calls, PyTorch's names, sorted.
        needed: names of the libraries that it needs.
    """

    data: bytes
    machine: str
    shims: tuple[str, ...]
    needed: tuple[str, ...]


def build_shared_object(code: GeneratedCode, build: SharedObjectBuild) -> SharedObject:
    """Compile and link; wrapper and kernels are compiled at the same time, and images made.

    What was built before from the same code comes from the cache, and what was begun is dropped.

    Raises:
        LoweringError: no compiler, or it failed; the message has its output.
    """
    compiler = cxx_compiler(build.machine)
    units = _units(code, build, compiler)
    data = _data_of(compiler, units, build)
    info = elf.read_shared_object(data)
    shims = [symbol for symbol in info.undefined if is_shim(symbol)]
    return SharedObject(
        data=data,
        machine=info.machine,
        shims=tuple(sorted(symbol.removeprefix(LINK_NAME_PREFIX) for symbol in shims)),
        needed=info.needed,
    )


def compile_shared_parts(interface: str, build: SharedObjectBuild) -> None:
    """Compile what all blobs of a target share and the cache does not have: headers, the interface.

    Args:
        interface: as ``split_wrapper`` cuts it out; empty if it is not known yet.
        build: how blobs are compiled; images, objects and libraries make no difference.

    Raises:
        LoweringError: no compiler, or it failed.
    """
    compiler = cxx_compiler(build.machine)
    flags, prefix = _wrapper_flags(build, compiler), wrapper_prefix(build)
    parts: list[Callable[[], object]] = [lambda: precompiled(compiler, flags, prefix)]
    if interface:
        unit = Unit("interface", interface, flags, prefix, shared=True)
        parts = [lambda: compile_unit(compiler, unit, Path())]
    if build.device == "cpu":
        how, headers = kernel_flags(build, compiler), _kernel_prefix(build)
        parts.append(lambda: precompiled(compiler, how, headers))
    for_each(lambda part: part(), parts)


def _units(code: GeneratedCode, build: SharedObjectBuild, compiler: list[str]) -> list[Unit]:
    wrapper = split_wrapper(code.wrapper)
    flags, prefix = _wrapper_flags(build, compiler), wrapper_prefix(build)
    constants = NO_CONSTANTS + _UNLOADING if zig.is_zig(compiler) else NO_CONSTANTS
    units = [
        Unit("wrapper", wrapper.model, flags, prefix),
        Unit("constants", constants, flags),
    ]
    if code.kernels.strip():
        how = kernel_flags(build, compiler)
        units.append(Unit("kernels", code.kernels, how, _kernel_prefix(build)))
    if wrapper.interface:
        units.append(Unit("interface", wrapper.interface, flags, prefix, shared=True))
    return units


def _digest(compiler: list[str], units: list[Unit], build: SharedObjectBuild) -> bytes:
    """What the linked bytes depend on; of files their content."""
    files = (*build.runtime_libraries, *map(Path, build.objects), *map(Path, build.libraries))
    contents = {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    images = {name: hashlib.sha256(image).hexdigest() for name, image in build.images.items()}
    facts = (
        *(torch.__version__, compiler_identity(tuple(compiler)), units, contents, images),
        *(build.debug_info, _LINK_FLAGS, zig.LINK_FLAGS, _EXPORTS),
    )
    return hashlib.sha256(repr(facts).encode()).digest()


def _data_of(compiler: list[str], units: list[Unit], build: SharedObjectBuild) -> bytes:
    """The bytes of a blob, from the cache if it has them."""

    def built() -> bytes:
        with _begun(compiler, units) as objects:
            return _linked(compiler, objects(), build)

    if not build.images:
        return cached_blob(_digest(compiler, units, build), built)
    with _begun(compiler, units) as objects:
        key = _digest(compiler, units, build)  # makes the images
        return cached_blob(key, lambda: _linked(compiler, objects(), build))


@contextlib.contextmanager
def _begun(compiler: list[str], units: list[Unit]) -> Iterator[Callable[[], list[Path]]]:
    """Compile units for the block; gives a function that waits for their objects."""
    with (
        tempfile.TemporaryDirectory(prefix="aoti_plugins-") as folder,
        begun_for_each(lambda unit: compile_unit(compiler, unit, Path(folder)), units) as objects,
    ):
        yield objects


def _linked(compiler: list[str], objects: list[Path], build: SharedObjectBuild) -> bytes:
    with tempfile.TemporaryDirectory(prefix="aoti_plugins-") as name:
        folder = Path(name)
        if build.images:
            unit = Unit("images", _embedded(build.images, folder), (), suffix="S")
            objects = [*objects, compile_unit(compiler, unit, folder)]
        linked = folder / "blob.so"
        command = _link_command(compiler, objects, linked, folder, build)
        with zig.zig_cache_for(compiler):
            run(command, scratch=folder)
        return linked.read_bytes()


@dataclass(frozen=True)
class Unit:
    """A file to compile.

    Attributes:
        name: of source and object.
        source: its text.
        flags: what it is compiled with.
        prefix: headers that are precompiled; empty: none.
        suffix: of the source.
        shared: whether many blobs have it, so that the object is kept.
    """

    name: str
    source: str
    flags: tuple[str, ...]
    prefix: str = ""
    suffix: str = "cpp"
    shared: bool = False


def _embedded(images: Mapping[str, bytes], folder: Path) -> str:
    """Assembly that holds bytes under the symbols by which the wrapper knows them."""
    lines = ['.section .rodata,"a",%progbits']
    for number, (symbol, image) in enumerate(images.items()):
        path = folder / f"image{number}.bin"  # symbols may be longer than names of files
        path.write_bytes(image)
        lines += [f".hidden {symbol}", f".globl {symbol}", ".balign 64", f"{symbol}:"]
        lines.append(f'.incbin "{path}"')
    return "\n".join([*lines, '.section .note.GNU-stack,"",%progbits', ""])


def compile_unit(compiler: list[str], unit: Unit, folder: Path) -> Path:
    """The object file of a unit; one that is not shared is made in the folder."""
    prefix: list[str] = []
    if unit.prefix:
        prefix = precompiled(compiler, unit.flags, unit.prefix)
        if is_clang(compiler):
            prefix += ["-include", "aoti_plugins/shim_link_names.h"]
    if unit.shared:
        return compiled_object(compiler, [*unit.flags, *prefix], unit.source)
    source = folder / f"{unit.name}.{unit.suffix}"
    source.write_text(unit.source, "utf-8")
    target = folder / f"{unit.name}.o"
    # Debuggers and __FILE__ see names without the temporary folder, so equal sources give equal
    # bytes.
    flags = [*unit.flags, *prefix, f"-ffile-prefix-map={folder}=."]
    run([*compiler, *flags, "-c", str(source), "-o", str(target)], scratch=folder)
    return target


def _link_command(
    compiler: list[str], objects: list[Path], linked: Path, folder: Path, build: SharedObjectBuild
) -> list[str]:
    exports = folder / "exports.map"
    exports.write_text(_EXPORTS, "utf-8")
    libraries = (
        library_for(build.machine, path, build.include_dir, compiler, folder)
        for path in build.runtime_libraries
    )
    return [
        *compiler,
        *_LINK_FLAGS,
        *(zig.LINK_FLAGS if zig.is_zig(compiler) else ()),
        *([] if build.debug_info else ["-s"]),
        f"-Wl,--version-script={exports}",
        *map(str, objects),
        *build.objects,
        "-Wl,--no-as-needed",
        *map(str, libraries),
        *build.libraries,
        "-Wl,--as-needed",
        "-o",
        str(linked),
    ]


def _wrapper_flags(build: SharedObjectBuild, compiler: list[str]) -> tuple[str, ...]:
    return (*flags_with(_common_flags(build, compiler), build), *_WRAPPER_FLAGS)


def kernel_flags(build: SharedObjectBuild, compiler: list[str]) -> tuple[str, ...]:
    """What the kernels of a CPU are compiled with."""
    flags = (*flags_with(_common_flags(build, compiler), build), *_KERNEL_FLAGS)
    if zig.is_zig(compiler):
        return (*flags, *zig.zig_flags(build.target_flags))
    return (*flags, *(() if is_clang(compiler) else _GNU_KERNEL_FLAGS), *build.target_flags)


def _common_flags(build: SharedObjectBuild, compiler: list[str]) -> tuple[str, ...]:
    ours = build.include_dir / "aoti_plugins"
    # PyTorch's sleef.h is for the machine that PyTorch runs on.
    machine = (f"-isystem{ours / 'aarch64'}",) if build.machine == "aarch64" else ()
    if not is_clang(compiler):
        return (*_COMMON_FLAGS, *_GNU_FLAGS, *machine)
    # It need not have an omp.h, and one that it has knows of more than there is.
    return (*_COMMON_FLAGS, *_CLANG_FLAGS, *machine, f"-isystem{ours / 'openmp'}")


def flags_with(first: tuple[str, ...], build: SharedObjectBuild) -> tuple[str, ...]:
    """Flags, and what follows from a build: macros, folders of headers, whether to keep symbols."""
    includes = [build.include_dir, *build.headers.include_dirs, *include_paths()]
    return (
        *first,
        *_DEFINES,
        *(f"-D{define}" for define in build.headers.defines),
        *(f"-isystem{path}" for path in includes),
        # Messages name headers without the folder they are installed in.
        *(f"-fmacro-prefix-map={path}/=" for path in map(str, includes)),
        "-g1" if build.debug_info else "-g0",
    )


def wrapper_prefix(build: SharedObjectBuild) -> str:
    """What every wrapper includes, to be included before its own text."""
    return _prefix(build, [header.format(device=build.device) for header in _WRAPPER_HEADERS])


def _kernel_prefix(build: SharedObjectBuild) -> str:
    return _prefix(build, _KERNEL_HEADERS)


def _prefix(build: SharedObjectBuild, headers: Iterable[str]) -> str:
    included = (f"#include <{header}>\n" for header in (*build.headers.preludes, *headers))
    return _stamp(build.include_dir) + "".join(included)


def _stamp(include_dir: Path) -> str:
    """Tell precompiled headers apart whose text is equal but for what our headers contain."""
    digest = hashlib.sha256()
    for header in sorted(include_dir.glob("aoti_plugins/**/*.h")):
        digest.update(header.read_bytes())
    return f"// {digest.hexdigest()}\n"


def is_shim(symbol: str) -> bool:
    """Whether a symbol that a blob takes from others is a C shim."""
    return symbol.startswith((f"{LINK_NAME_PREFIX}aoti_", "aoti_torch_"))


def check_machine(blob: SharedObject, expected: str, target: str) -> None:
    """Fail where the compiler made code for another machine than the target's.

    Raises:
        LoweringError: it did; the message names both.
    """
    if blob.machine != expected:
        raise LoweringError(
            f"target {target!r} is a {expected} machine, but the compiler made "
            f"{blob.machine} code; set CXX to a compiler for {expected}, or unset it"
        )
