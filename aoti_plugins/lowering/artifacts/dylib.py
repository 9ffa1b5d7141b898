"""Compile generated C++ into a dynamic library for macOS, on any machine.

As ``shared_object.py`` does for Linux, with Zig instead of the host's compiler. Apple's loader
takes the C shims from the runtime by name, whatever library has them, so none is named here; their
linker names are our own, and no libtorch can answer for them.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch

from aoti_plugins.errors import LoweringError
from aoti_plugins.lowering.artifacts import shared_object
from aoti_plugins.lowering.artifacts.compile_cache import cached_blob
from aoti_plugins.lowering.artifacts.compiler import compiler_identity, for_each, run
from aoti_plugins.lowering.artifacts.mach_o import read_mach_o
from aoti_plugins.lowering.artifacts.shared_object import (
    SharedObject,
    SharedObjectBuild,
    Unit,
    compile_unit,
    wrapper_prefix,
)
from aoti_plugins.lowering.artifacts.zig import checked_zig_cache, zig_compiler
from aoti_plugins.lowering.inductor.capture import GeneratedCode
from aoti_plugins.lowering.inductor.model_interface import split_wrapper

_FLAGS = (
    "-std=c++20",
    "-O1",
    "-fPIC",
    "-fvisibility=hidden",
    "-fvisibility-inlines-hidden",
    "-ffunction-sections",
    "-w",
)
_LINK_FLAGS = (
    "-shared",
    "-Wl,-dead_strip",
    "-Wl,-undefined,dynamic_lookup",
    "-Wl,-install_name,@rpath/aoti_blob.dylib",
)
# The name is in the signature, and equal programs are equal bytes.
_FILE_NAME = "aoti_blob.dylib"


@dataclass(frozen=True)
class MacOs:
    """A macOS to make code for.

    Attributes:
        zig_target: Zig's name of machine and system, without a version, such as
            ``"aarch64-macos"``.
        minimum: the oldest version that has to load it, such as ``"14.0"``.
        codesign_identity: whose signature it gets; empty: one ad hoc.
    """

    zig_target: str
    minimum: str
    codesign_identity: str = ""


def build_dylib(code: GeneratedCode, build: SharedObjectBuild, system: MacOs) -> SharedObject:
    """Compile and link; equal sources give equal bytes.

    Raises:
        LoweringError: no Zig, or it failed; the message has its output.
    """
    compiler = zig_compiler(f"{system.zig_target}.{system.minimum}")
    if code.kernels.strip():
        raise LoweringError("the code has kernels for the host, and there is no threading for them")
    if build.objects or build.libraries:
        raise LoweringError("objects and libraries of plugins cannot be linked for macOS yet")
    key = _digest(compiler, code, build, system)
    data = cached_blob(key, lambda: _linked(compiler, code, build, system))
    info = read_mach_o(data)
    names = [name for name, _ in info.undefined if shared_object.is_shim(name)]
    return SharedObject(
        data=data,
        machine=info.machine,
        shims=tuple(sorted(name.removeprefix(shared_object.LINK_NAME_PREFIX) for name in names)),
        needed=info.needed,
    )


def _digest(
    compiler: list[str], code: GeneratedCode, build: SharedObjectBuild, system: MacOs
) -> bytes:
    facts = (
        *(torch.__version__, compiler_identity(tuple(compiler)), system, code.wrapper),
        *(_flags(build), wrapper_prefix(build), _LINK_FLAGS, build.debug_info),
    )
    return hashlib.sha256(repr(facts).encode()).digest()


def _linked(
    compiler: list[str], code: GeneratedCode, build: SharedObjectBuild, system: MacOs
) -> bytes:
    wrapper = split_wrapper(code.wrapper)
    flags, prefix = _flags(build), wrapper_prefix(build)
    units = [
        Unit("model", prefix + wrapper.model, flags),
        Unit("constants", shared_object.NO_CONSTANTS, flags, shared=True),
    ]
    if wrapper.interface:
        units.append(Unit("interface", prefix + wrapper.interface, flags, shared=True))
    with tempfile.TemporaryDirectory(prefix="aoti_plugins-") as name:
        folder = Path(name)
        objects = for_each(lambda unit: compile_unit(compiler, unit, folder), units)
        linked = folder / _FILE_NAME
        strip = [] if build.debug_info else ["-s"]
        command = [*compiler, *_LINK_FLAGS, *strip, *map(str, objects), "-o", str(linked)]
        with checked_zig_cache():
            run(command, scratch=folder)
        _sign(linked, system.codesign_identity, folder)
        return linked.read_bytes()


def _sign(linked: Path, identity: str, folder: Path) -> None:
    """Replace Zig's signature ad hoc, where somebody else's is wanted."""
    if not identity:
        return
    if sys.platform != "darwin":
        raise LoweringError(
            "codesign_identity needs Apple's codesign: lower on a Mac, or leave it out; the code "
            "then has a signature ad hoc, which macOS accepts"
        )
    run(["codesign", "--force", "--sign", identity, str(linked)], scratch=folder)


def _flags(build: SharedObjectBuild) -> tuple[str, ...]:
    return shared_object.flags_with(_FLAGS, build)
