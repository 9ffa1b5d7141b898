"""Find the host's C++ compiler and run it."""

from __future__ import annotations

import functools
import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from aoti_plugins.errors import LoweringError

_CANDIDATES = ("g++",)
_MAX_ERROR_LINES = 40


def cxx_compiler() -> list[str]:
    """The compiler's command: ``$CXX``, else g++ from the path. It has to be a g++.

    Raises:
        LoweringError: there is none; the message says what to install.
    """
    chosen = shlex.split(os.environ.get("CXX", ""))
    for command in [chosen] if chosen else [[name] for name in _CANDIDATES]:
        found = shutil.which(command[0])
        if found:
            return _gnu([found, *command[1:]])
    asked = f"$CXX is {chosen[0]!r}, which is not there" if chosen else "there is no g++"
    raise LoweringError(
        f"lowering needs the GNU C++ compiler and {asked}. "
        "Install one (Debian, Ubuntu: apt install g++; Fedora: dnf install gcc-c++) or set CXX."
    )


def check_compiler(machine: str, target: str) -> None:
    """Fail early where the compiler makes code for another machine than a target's.

    Args:
        machine: the target's machine, for instance ``"x86_64"``.
        target: its name, for the message.

    Raises:
        LoweringError: there is no compiler, or it makes code for another machine.
    """
    compiler = cxx_compiler()
    found = compiler_machine(tuple(compiler))
    if found != machine:
        raise LoweringError(
            f"target {target!r} is a {machine} machine, but {compiler[0]} makes {found} code; "
            "lower on such a machine, or set CXX to a compiler for it"
        )


@functools.cache
def compiler_machine(command: tuple[str, ...]) -> str:
    """The machine that a compiler makes code for, for instance ``"x86_64"``."""
    return run([*command, "-dumpmachine"]).strip().partition("-")[0]


def _gnu(command: list[str]) -> list[str]:
    """Refuse clang, whose parallel loops call an OpenMP library that the runtime does not have."""
    if "clang" in compiler_identity(tuple(command)).lower():
        raise LoweringError(
            f"{command[0]} is clang, and the runtime has only gcc's OpenMP entry points; "
            "set CXX to a g++, or leave it unset"
        )
    return command


@functools.cache
def compiler_identity(command: tuple[str, ...]) -> str:
    """What ``--version`` prints; part of the key of everything cached per compiler."""
    return run([*command, "--version"]).strip()


def run(command: Sequence[str], *, cwd: Path | None = None) -> str:
    """Run a compiler or linker and return what it printed.

    Raises:
        LoweringError: it failed; the message has the command and the first lines of its output.
    """
    done = subprocess.run(
        command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        lines = done.stdout.splitlines()
        shown = "\n".join(lines[:_MAX_ERROR_LINES])
        cut = (
            f"\n… {len(lines) - _MAX_ERROR_LINES} more lines"
            if len(lines) > _MAX_ERROR_LINES
            else ""
        )
        raise LoweringError(
            f"{Path(command[0]).name} failed with exit status {done.returncode}:\n"
            f"  {shlex.join(command)}\n{shown}{cut}"
        )
    return done.stdout
