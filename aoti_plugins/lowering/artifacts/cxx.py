"""Which compiler makes the host code of a target: ``$CXX``, else a fitting g++, else Zig."""

from __future__ import annotations

import os
import shlex
import shutil

from aoti_plugins.errors import LoweringError
from aoti_plugins.lowering.artifacts import zig
from aoti_plugins.lowering.artifacts.compiler import compiler_machine, is_clang

_INSTALL = (
    "pip install ziglang, which has one for every machine, or install a g++ for it "
    "(Debian, Ubuntu: apt install g++; Fedora: dnf install gcc-c++) and set CXX if it has "
    "another name."
)


def cxx_compiler(machine: str, target: str = "") -> list[str]:
    """The command of the C++ compiler for a machine.

    ``$CXX`` decides alone where it is set. Otherwise it is the g++ on the path if that makes code
    for the machine, or Zig, which does so for all.

    Args:
        machine: for instance ``"x86_64"``.
        target: whose machine it is, for messages.

    Raises:
        LoweringError: there is none, or ``$CXX`` is for another machine; the message says what to
            do.
    """
    if chosen := shlex.split(os.environ.get("CXX", "")):
        return _chosen(chosen, machine, target)
    found = shutil.which("g++")
    if found and not is_clang([found]) and compiler_machine((found,)) == machine:
        return [found]
    if machine in zig.MACHINES and zig.is_installed():
        return zig.linux_compiler(machine)
    lacks = f"the g++ here makes {compiler_machine((found,))} code" if found else "there is no g++"
    raise LoweringError(
        f"lowering{_for(target)} needs a C++ compiler for {machine} machines, and {lacks}, nor is "
        f"there Zig: {_INSTALL}"
    )


def _chosen(command: list[str], machine: str, target: str) -> list[str]:
    program = shutil.which(command[0])
    if program is None:
        raise LoweringError(
            f"$CXX is {command[0]!r}, which is not there: correct it, or unset it, and {_INSTALL}"
        )
    command = [program, *command[1:]]
    if is_clang(command):
        raise LoweringError(
            f"$CXX, {shlex.join(command)}, is clang, and of clang only Zig's is known to work: set "
            f"it to a g++, or unset it, and {_INSTALL}"
        )
    found = compiler_machine(tuple(command))
    if found != machine:
        raise LoweringError(
            f"lowering{_for(target)} needs a C++ compiler for {machine} machines, and $CXX, "
            f"{shlex.join(command)}, makes {found} code: set it to a compiler for {machine}, or "
            f"unset it, and {_INSTALL}"
        )
    return command


def _for(target: str) -> str:
    return f" for target {target!r}" if target else ""
