"""Read what a Mach-O library needs, offers and was made for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aoti_plugins.errors import LoweringError

_MACHINES = {"ARM64": "arm64-apple-macos", "X86_64": "x86_64-apple-macos"}
_MAGIC = b"\xcf\xfa\xed\xfe"


@dataclass(frozen=True)
class MachOInfo:
    """The interface of a dynamic library for macOS. Symbols are as the file has them.

    Attributes:
        machine: ``"arm64-apple-macos"`` or ``"x86_64-apple-macos"``.
        minimum_macos: the oldest macOS that loads it, such as ``"14.0"``.
        needed: install names of the libraries it needs, in order.
        undefined: symbols it takes from others, sorted, each with the install name of the library
            that it has to come from; an empty name is any library.
        exported: symbols it offers, sorted.
        is_signed: whether it has a signature, without which macOS on arm64 loads nothing.
    """

    machine: str
    minimum_macos: str
    needed: tuple[str, ...]
    undefined: tuple[tuple[str, str], ...]
    exported: tuple[str, ...]
    is_signed: bool


def is_mach_o(data: bytes) -> bool:
    """Whether bytes begin like a 64-bit Mach-O file."""
    return data[:4] == _MAGIC


def read_mach_o(data: bytes) -> MachOInfo:
    """Parse the bytes of a dynamic library.

    Raises:
        LoweringError: the bytes are no Mach-O file for one machine, or the package lief, which
            reads them, is not installed.
    """
    try:
        import lief
    except ImportError as error:
        raise LoweringError(
            "reading code for macOS needs the package lief: pip install 'aoti-plugins[mps]'"
        ) from error
    lief.logging.disable()
    binary = lief.MachO.parse(list(data)) if is_mach_o(data) else None
    if binary is None or len(binary) != 1:
        raise LoweringError("this is no Mach-O library for one machine")
    found: Any = binary.at(0)
    cpu = found.header.cpu_type.name
    needed = [one.name for one in found.libraries if one.command.name != "ID_DYLIB"]
    version = found.build_version.minos if found.has_build_version else (0, 0)
    return MachOInfo(
        machine=_MACHINES.get(cpu, cpu),
        minimum_macos=".".join(map(str, version[:2])),
        needed=tuple(needed),
        undefined=tuple(
            sorted((one.name, _library(one, needed)) for one in found.imported_symbols)
        ),
        exported=tuple(sorted(one.name for one in found.exported_symbols)),
        is_signed=found.has_code_signature,
    )


def _library(symbol: Any, needed: list[str]) -> str:
    """By the library's number in the high byte of the description, as <mach-o/nlist.h> has it."""
    number = symbol.description >> 8 & 0xFF
    return needed[number - 1] if 0 < number <= len(needed) else ""
