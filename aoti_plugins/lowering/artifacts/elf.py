"""Read what an ELF file needs, offers and was made for."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

_MACHINES = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64"}


@dataclass(frozen=True)
class SharedObjectInfo:
    """The dynamic interface of a shared object.

    Attributes:
        machine: ``"x86_64"``, ``"aarch64"``, or ELF's own name for another one.
        needed: sonames of the libraries it needs, in order.
        undefined: symbols it takes from others, sorted.
        exported: symbols it offers, sorted.
    """

    machine: str
    needed: tuple[str, ...]
    undefined: tuple[str, ...]
    exported: tuple[str, ...]


def read_shared_object(data: bytes) -> SharedObjectInfo:
    """Parse the bytes of a shared object.

    Raises:
        elftools.common.exceptions.ELFError: the bytes are no ELF file.
    """
    elf = ELFFile(io.BytesIO(data))
    undefined: set[str] = set()
    exported: set[str] = set()
    symbols = elf.get_section_by_name(".dynsym")
    if isinstance(symbols, SymbolTableSection):
        for symbol in symbols.iter_symbols():
            if symbol.name:
                is_undefined = symbol["st_shndx"] == "SHN_UNDEF"
                (undefined if is_undefined else exported).add(symbol.name)
    machine = elf["e_machine"]
    return SharedObjectInfo(
        machine=_MACHINES.get(machine, str(machine)),
        needed=tuple(tag.needed for tag in _dynamic_tags(elf, "DT_NEEDED")),
        undefined=tuple(sorted(undefined)),
        exported=tuple(sorted(exported)),
    )


def read_soname(data: bytes) -> str:
    """Read the name that a shared object gives itself; empty where it has none.

    Raises:
        elftools.common.exceptions.ELFError: the bytes are no ELF file.
    """
    names = [tag.soname for tag in _dynamic_tags(ELFFile(io.BytesIO(data)), "DT_SONAME")]
    return names[0] if names else ""


def _dynamic_tags(elf: ELFFile, kind: str) -> list[Any]:
    dynamic = elf.get_section_by_name(".dynamic")
    if not isinstance(dynamic, DynamicSection):
        return []
    return [tag for tag in dynamic.iter_tags() if tag.entry.d_tag == kind]
