#!/usr/bin/env python3
"""Say which glibc and libstdc++ native libraries need, and fail where that is newer than allowed.

    python tools/glibc_versions.py [--newest 2.28] FILE.so|FILE.whl ...

For libstdc++ and libgcc the newest allowed is always what manylinux_2_28 has: that of GCC 8.
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

GLIBC = "GLIBC"
# https://github.com/pypa/auditwheel, policy manylinux_2_28; each with what people call it.
NEWEST_OF_GCC = {
    "GLIBCXX": ("libstdc++ GLIBCXX", (3, 4, 25)),
    "CXXABI": ("libstdc++ CXXABI", (1, 3, 11)),
    "GCC": ("libgcc", (8, 0, 0)),
}


def parse_version(text: str) -> Version:
    """``"2.28"`` as numbers that compare."""
    return tuple(int(part) for part in text.split("."))


def needed_versions(stream: BinaryIO) -> dict[str, Version]:
    """The newest versions of symbols that a library asks for, by kind, such as ``GLIBC``."""
    names = (
        need.name
        for section in ELFFile(stream).iter_sections()
        if isinstance(section, GNUVerNeedSection)
        for _, needs in section.iter_versions()
        for need in needs
    )
    found: dict[str, Version] = {}
    for match in (re.fullmatch(r"([A-Z]+)_(\d+(?:\.\d+)+)", name) for name in names):
        if match:
            kind, version = match[1], parse_version(match[2])
            found[kind] = max(found.get(kind, ()), version)
    return found


def too_new(needed: dict[str, Version], newest_glibc: Version) -> list[str]:
    """What a library needs that is newer than allowed, as people read it."""
    allowed = {GLIBC: ("glibc", newest_glibc), **NEWEST_OF_GCC}
    return [
        f"{name} {_text(needed[kind])}, newer than {_text(newest)}"
        for kind, (name, newest) in allowed.items()
        if needed.get(kind, ()) > newest
    ]


def _text(version: Version) -> str:
    return ".".join(map(str, version)) or "none"


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
    """Print a line per library; 1 if one needs something newer, or if there was none to look at."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--newest", default="2.28", help="the newest glibc that may be needed")
    parser.add_argument("files", nargs="+", type=Path)
    options = parser.parse_args(arguments)
    newest, seen, refused = parse_version(options.newest), 0, 0
    for name, stream in (one for path in options.files for one in libraries(path)):
        needed = needed_versions(stream)
        reasons = too_new(needed, newest)
        seen += 1
        refused += bool(reasons)
        needs = "; ".join(reasons) or f"glibc {_text(needed.get(GLIBC, ()))}"
        print(f"{name}: {needs}")
    if not seen:
        print("no ELF file in what was given", file=sys.stderr)
    return int(bool(refused) or not seen)


if __name__ == "__main__":
    sys.exit(main())
