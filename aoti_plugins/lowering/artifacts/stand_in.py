"""A library to link against in place of one that is for another machine.

A blob names the runtime's library and takes functions of it. The linker wants to see that they are
there; the library that is installed here has them, for this machine. So an empty one with its name
and its symbols is made for the target's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from aoti_plugins.lowering.artifacts import elf
from aoti_plugins.lowering.artifacts.compiler import run

_VECTOR_MATH = "aoti_plugins/vector_math_link_names.h"
"""Lists functions of which each machine has its own in the runtime's library."""


def library_for(
    machine: str, library: Path, include_dir: Path, compiler: Sequence[str], folder: Path
) -> Path:
    """What a blob for a machine is linked against for a library of the runtime.

    Args:
        machine: the blob's.
        library: as it is installed here.
        include_dir: folder of our headers.
        compiler: makes code for the machine.
        folder: for a library that is made; gone with it.

    Returns:
        The library itself, or one with its name and symbols.

    Raises:
        LoweringError: the compiler failed.
    """
    data = library.read_bytes()
    info = elf.read_shared_object(data)
    if info.machine == machine:
        return library
    listed = re.findall(r"redefine_extname \w+ (\w+)", (include_dir / _VECTOR_MATH).read_text())
    names = sorted({*info.exported, *listed})
    source, made = folder / f"{library.name}.S", folder / library.name
    source.write_text("".join(f".globl {name}\n{name}:\n" for name in names), "utf-8")
    soname = elf.read_soname(data) or library.name
    command = [*compiler, "-shared", "-nostdlib", f"-Wl,-soname,{soname}", str(source)]
    run([*command, "-o", str(made)], scratch=folder)
    return made
