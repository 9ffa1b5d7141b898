#!/usr/bin/env python3
"""Say which glibc native libraries need, and fail where that is newer than allowed.

    python tools/glibc_versions.py [--newest 2.28] FILE.so|FILE.whl ...

Symbols of libstdc++ (GLIBCXX, CXXABI) are not looked at.
"""

from __future__ import annotations

import argparse
import io
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

Version = tuple[int, ...]


def parse_version(text: str) -> Version:
    """``"2.28"`` as numbers that compare."""
    return tuple(int(part) for part in text.split("."))


def needed_versions(stream: BinaryIO) -> set[Version]:
    """The versions of glibc whose symbols a library asks for."""
    names = (
        need.name
        for section in ELFFile(stream).iter_sections()
        if isinstance(section, GNUVerNeedSection)
        for _, needs in section.iter_versions()
        for need in needs
    )
    found = (re.fullmatch(r"GLIBC_(\d+(?:\.\d+)+)", name) for name in names)
    return {parse_version(match[1]) for match in found if match}


def libraries(path: Path) -> Iterator[tuple[str, BinaryIO]]:
    """The ELF files that a path stands for: itself, or those in a wheel."""
    if path.suffix != ".whl":
        yield str(path), io.BytesIO(path.read_bytes())
        return
    with zipfile.ZipFile(path) as wheel:
        for name in wheel.namelist():
            content = wheel.read(name)
            if content.startswith(b"\x7fELF"):
                yield f"{path.name}:{name}", io.BytesIO(content)


def main(arguments: list[str] | None = None) -> int:
    """Print a line per library; 1 if one needs a newer glibc, or if there was none to look at."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--newest", default="2.28", help="the newest glibc that may be needed")
    parser.add_argument("files", nargs="+", type=Path)
    options = parser.parse_args(arguments)
    newest, seen, refused = parse_version(options.newest), 0, 0
    for name, stream in (one for path in options.files for one in libraries(path)):
        version = max(needed_versions(stream), default=())
        seen += 1
        refused += version > newest
        needs = ".".join(map(str, version)) or "none"
        print(f"{name}: glibc {needs}" + (f", newer than {options.newest}" * (version > newest)))
    if not seen:
        print("no ELF file in what was given", file=sys.stderr)
    return int(bool(refused) or not seen)


if __name__ == "__main__":
    sys.exit(main())
