"""Read what a GPU binary (cubin) needs, without a GPU and without CUDA's tools.

A cubin is an ELF file. Its section ``.nv.info`` is a list of attributes, each a format byte, an
attribute byte and a 16-bit field; with format 4 the field is the length of a value that follows.
The values read here are pairs of the function's symbol index and a number. The layout is not
documented by NVIDIA; it is the one that ``cuobjdump -res-usage`` reads, with which a test compares.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from aoti_plugins.errors import LoweringError

_VALUE_FOLLOWS = 0x04
_FRAME_SIZE = 0x11
_REGISTER_COUNT = 0x2F
_PAIR = struct.Struct("<II")


@dataclass(frozen=True)
class KernelResources:
    """What one kernel takes of a multiprocessor.

    Attributes:
        registers: 32-bit registers of a thread.
        stack_nbytes: local memory of a thread in bytes: spilled registers and arrays.
        shared_nbytes: shared memory that the binary itself asks for. What a launch adds (all that
            Triton uses) is not in the binary.
    """

    registers: int
    stack_nbytes: int
    shared_nbytes: int

    @property
    def spills(self) -> int:
        """Spilled registers, as Triton counts them: words of local memory of a thread."""
        return self.stack_nbytes // 4


def kernel_resources(binary: bytes, kernel: str) -> KernelResources:
    """Registers, local and shared memory of one kernel of a cubin.

    Raises:
        LoweringError: the bytes are no cubin, or it has no such kernel.
    """
    try:
        elf = ELFFile(io.BytesIO(binary))
        index = _symbol_index(elf, kernel)
        found = {
            attribute: number for attribute, symbol, number in _attributes(elf) if symbol == index
        }
        shared = elf.get_section_by_name(f".nv.shared.{kernel}")
        shared_nbytes = 0 if shared is None else int(shared["sh_size"])
    except (ELFError, struct.error) as error:
        raise LoweringError(f"the binary of kernel {kernel!r} is no cubin: {error}") from error
    if _REGISTER_COUNT not in found:
        raise LoweringError(f"the cubin does not say how many registers kernel {kernel!r} takes")
    return KernelResources(
        registers=found[_REGISTER_COUNT],
        stack_nbytes=found.get(_FRAME_SIZE, 0),
        shared_nbytes=shared_nbytes,
    )


def registers_and_spills(binary: bytes, kernel: str) -> tuple[int, int]:
    """Registers of a thread and spilled registers, as a driver would report them to Triton."""
    resources = kernel_resources(binary, kernel)
    return resources.registers, resources.spills


def _symbol_index(elf: ELFFile, kernel: str) -> int:
    symbols = elf.get_section_by_name(".symtab")
    names = []
    if isinstance(symbols, SymbolTableSection):
        for index, symbol in enumerate(symbols.iter_symbols()):
            if symbol["st_info"]["type"] == "STT_FUNC":
                names.append(symbol.name)
                if symbol.name == kernel:
                    return index
    raise LoweringError(f"the cubin has no kernel {kernel!r}; it has: {', '.join(names) or 'none'}")


def _attributes(elf: ELFFile) -> Iterator[tuple[int, int, int]]:
    """Attribute, symbol index and value of every pair in ``.nv.info``."""
    section = elf.get_section_by_name(".nv.info")
    data = b"" if section is None else section.data()
    offset = 0
    while offset + 4 <= len(data):
        form, attribute, length = struct.unpack_from("<BBH", data, offset)
        offset += 4
        if form != _VALUE_FOLLOWS:
            continue
        if length == _PAIR.size:
            symbol, number = _PAIR.unpack_from(data, offset)
            yield attribute, symbol, number
        offset += length
