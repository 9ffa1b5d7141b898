"""Which of several processes this one is, for programs that are for several ranks."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from pathlib import Path

from aoti_plugins.errors import ProgramError
from aoti_plugins.runtime._libraries import core_error, core_function

DEFAULT_TIMEOUT_S = 300.0
"""How long a rank waits for another one; must match native/src/ranks/place.h."""

_STARTERS = (
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)
"""Where torchrun, Open MPI and others say it; must match native/src/ranks/place.cpp."""
_FILE = "AOTI_PLUGINS_RANK_FILE"
"""Names a file of lines NAME=VALUE, for what the environment does not say; likewise."""
_NO_RANKS = (
    "runs no programs for several ranks: that needs Linux, and a library of this version. "
    "Reinstall aoti-plugins."
)

_place: list[tuple[int, int]] = []


def set_rank(
    rank: int,
    world_size: int,
    *,
    meeting: str,
    local_rank: int | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> None:
    """Say which rank this process is, whatever the environment says.

    Call it before the first method of a program for several ranks is loaded: then the ranks meet.

    Args:
        rank: from 0.
        world_size: how many ranks there are.
        meeting: a name that all ranks of one start have in common, and no others on this machine.
        local_rank: the number of the GPU that is this rank's; by default the rank.
        timeout_s: how long a rank waits for another one, in seconds.

    Raises:
        ProgramError: the numbers do not fit together.
        RuntimeLoadError: the native libraries are missing or do not load.
    """
    local = rank if local_rank is None else local_rank
    number = ctypes.c_int32
    types = (number, number, number, ctypes.c_char_p, ctypes.c_double)
    _call("aotip_set_rank", types, rank, world_size, local, meeting.encode(), timeout_s)
    _place[:] = [(rank, world_size)]


def current_place(environment: Mapping[str, str] | None = None) -> tuple[int, int]:
    """This process's rank and how many ranks there are: ``(0, 1)`` where nobody says otherwise.

    Args:
        environment: where to look if ``set_rank`` was not called; by default the process's. What is
            not there is looked for in the file that ``AOTI_PLUGINS_RANK_FILE`` names.

    Raises:
        ProgramError: the environment says something that is no number; the file cannot be read.
    """
    if _place and environment is None:
        return _place[0]
    found = _with_file(os.environ if environment is None else environment)
    for rank, world_size in _STARTERS:
        if found.get(rank) and found.get(world_size):
            try:
                return int(found[rank]), int(found[world_size])
            except ValueError as error:
                raise ProgramError(
                    f"{rank} and {world_size} are {found[rank]!r} and {found[world_size]!r}, "
                    "expected numbers"
                ) from error
    return 0, 1


def _with_file(environment: Mapping[str, str]) -> Mapping[str, str]:
    """What the environment says, or else the file that it names."""
    path = environment.get(_FILE)
    if not path:
        return environment
    try:
        lines = Path(path).read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ProgramError(f"{_FILE} is {path!r}: {error}") from error
    found: dict[str, str] = {}
    for number, line in enumerate(map(str.strip, lines), 1):
        name, sign, value = line.partition("=")
        if line and not line.startswith("#"):
            if not (name and sign):
                message = f"line {number} of {_FILE} {path!r} is {line!r}, expected NAME=VALUE"
                raise ProgramError(message)
            found[name.strip()] = value.strip()
    return {**found, **{name: value for name, value in environment.items() if value}}


def data_files_of_rank(program: str | os.PathLike[str], rank: int) -> list[Path]:
    """The data files beside a program that a rank loads: with what all ranks have, and its own.

    Args:
        program: path of the ``.pte``.
        rank: whose files.

    Returns:
        Those that are there of ``NAME.ptd`` and ``NAME.rank-N.ptd``, or ``rank-N.ptd``.
    """
    path = Path(program)
    common = path.with_suffix(".ptd")
    own = path.with_suffix(f".rank-{rank}.ptd"), path.with_name(f"rank-{rank}.ptd")
    found = [common] if common.exists() else []
    return found + [file for file in own if file.exists()][:1]


def of_rank_0(value: bytes) -> bytes:
    """What rank 0 gives, on all ranks; each calls it, with values of equal length.

    Without other ranks it is the value.

    Raises:
        ProgramError: another rank ends, or does not come within the time limit.
    """
    if current_place()[1] == 1:
        return value
    buffer = ctypes.create_string_buffer(value, len(value))
    types = (ctypes.c_void_p, ctypes.c_size_t)
    _call("aotip_broadcast_from_rank_0", types, buffer, len(value))
    return buffer.raw


def _call(name: str, types: tuple[type, ...], *arguments: object) -> None:
    """Call a C function.

    Raises:
        ProgramError: it fails; the message has the native reason.
        RuntimeLoadError: the library has no such function.
    """
    if core_function(name, ctypes.c_int32, *types, missing=_NO_RANKS)(*arguments) != 0:
        raise ProgramError(core_error("the ranks cannot meet"))
