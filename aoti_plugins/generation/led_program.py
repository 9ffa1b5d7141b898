"""Programs for several ranks: rank 0 decides which methods are called, the others follow it."""

from __future__ import annotations

import json
import logging
import os
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from aoti_plugins.errors import ProgramError
from aoti_plugins.runtime import Method, Program, current_place
from aoti_plugins.runtime.closing import Closing
from aoti_plugins.runtime.ranks import of_rank_0

logger = logging.getLogger(__name__)

NUM_RANKS = "get_num_ranks"
"""The constant method that says for how many ranks a program is."""

_FIRST_NBYTES = 4096
_LENGTHS = struct.Struct("<QQ")


def is_for_ranks(program: Program) -> bool:
    """Whether a language model is for several ranks."""
    return NUM_RANKS in program.methods


def open_program(
    path: str | os.PathLike[str], data_files: Sequence[str | os.PathLike[str]] = ()
) -> Any:
    """A program, or, where it is for several ranks, what leads the others on rank 0.

    Raises:
        ProgramError: it cannot be loaded, or this process is a rank that follows.
    """
    program = Program(path, data_files=data_files)
    rank, _ = current_place()
    if not is_for_ranks(program):
        return program
    if rank != 0:
        program.close()
        raise ProgramError(
            f"the {program} is for several ranks: rank 0 generates, and the others follow it; call "
            f"aoti_plugins.generation.follow on rank {rank}"
        )
    return LedProgram(program)


class LedProgram(Closing):
    """Rank 0's program: what is loaded and called here, the others load and call, too.

    Only of methods that ``lead`` names; calls of all threads are in one order.

    Attributes:
        methods: names of the methods.
    """

    def __init__(self, program: Program, tell: Callable[[bytes], bytes] = of_rank_0) -> None:
        self.methods = program.methods
        self._program = program
        self._tell = tell
        self.lock = threading.RLock()
        """Held while something is said and done."""
        self._count = 0
        self._is_over = False

    def method(
        self, name: str, *, share_state: LedMethod | Literal[False] | None = None
    ) -> Method | LedMethod:
        """Load a method, on all ranks; a constant on this one alone."""
        if _is_constant(name):
            return self._program.method(name)
        of = share_state.index if isinstance(share_state, LedMethod) else share_state
        own = share_state.own if isinstance(share_state, LedMethod) else share_state
        with self.lock:
            index = self._count
            self._count += 1
            self.tell({"do": "load", "method": name, "index": index, "share_state": of})
            return LedMethod(self, index, self._program.method(name, share_state=own))

    def tell(self, what: dict[str, Any], arrays: Sequence[Any] = ()) -> None:
        """Say to the others what comes; the lock is held until it is done here, too."""
        _send(self._tell, what, arrays)

    def close(self) -> None:
        """Free the program, and let the others end. May be called twice."""
        with self.lock:
            if not self._is_over:
                self._is_over = True
                try:
                    self.tell({"do": "end"})
                except ProgramError as error:
                    logger.warning("the other ranks are not told to end: %s", error)
                finally:
                    self._program.close()

    def __str__(self) -> str:
        return str(self._program)


class LedMethod:
    """A method that is loaded on all ranks. Made by ``LedProgram.method``."""

    def __init__(self, program: LedProgram, index: int, own: Method) -> None:
        self.index = index
        self.own = own
        self._program = program

    def __call__(self, *inputs: Any, copy: bool = True) -> tuple[Any, ...]:
        """Run it on all ranks; see ``Method.__call__``."""
        given = [np.ascontiguousarray(one) for one in inputs]
        with self._program.lock:
            self._program.tell({"do": "call", "index": self.index}, given)
            return self.own(*given, copy=copy)

    def close(self) -> None:
        """Free it on all ranks."""
        with self._program.lock:
            if not self._program._is_over:
                self._program.tell({"do": "close", "index": self.index})
            self.own.close()


def follow(
    path: str | os.PathLike[str], *, data_files: Sequence[str | os.PathLike[str]] = ()
) -> None:
    """Do what rank 0's ``TextGenerator`` does, until that is closed.

    Args:
        path: of the program.
        data_files: its data files; by default those of this rank beside it.

    Raises:
        ProgramError: the program is not for several ranks, or another rank ended.
    """
    with Program(path, data_files=data_files) as program:
        if not is_for_ranks(program):
            raise ProgramError(f"the {program} is not for several ranks")
        _follow(program, of_rank_0)


def _follow(program: Program, hear: Callable[[bytes], bytes]) -> None:
    methods: dict[int, Method] = {}
    while True:
        what, arrays = _receive(hear)
        if what["do"] == "end":
            return
        try:
            _do(program, methods, what, arrays)
        except ProgramError:
            # Rank 0 has the same failure and says so; if the ranks are apart, the next word fails.
            continue


def _do(
    program: Program, methods: dict[int, Method], what: dict[str, Any], arrays: list[Any]
) -> None:
    index = what["index"]
    if what["do"] == "load":
        share = what["share_state"]
        is_index = isinstance(share, int) and not isinstance(share, bool)
        of = methods[share] if is_index else share
        methods[index] = program.method(what["method"], share_state=of)
    elif what["do"] == "call":
        methods[index](*arrays, copy=False)
    else:
        methods.pop(index).close()


def _is_constant(name: str) -> bool:
    """Whether a method gives a constant: those of ``aoti-plugins export`` have such names."""
    return name.startswith(("get_", "is_", "use_", "enable_", "samples_", "sample_rate"))


def _send(tell: Callable[[bytes], bytes], what: dict[str, Any], arrays: Sequence[Any]) -> None:
    kinds = [(one.dtype.str, one.shape) for one in arrays]
    head = json.dumps({**what, "arrays": kinds}).encode()
    body = b"".join(one.tobytes() for one in arrays)
    message = _LENGTHS.pack(len(head), len(body)) + head + body
    tell(message[:_FIRST_NBYTES].ljust(_FIRST_NBYTES, b"\0"))
    if len(message) > _FIRST_NBYTES:
        tell(message[_FIRST_NBYTES:])


def _receive(hear: Callable[[bytes], bytes]) -> tuple[dict[str, Any], list[Any]]:
    message = hear(bytes(_FIRST_NBYTES))
    head, body = _LENGTHS.unpack_from(message)
    at = _LENGTHS.size + head
    total = at + body
    if total > _FIRST_NBYTES:
        message += hear(bytes(total - _FIRST_NBYTES))
    what: dict[str, Any] = json.loads(message[_LENGTHS.size : at])
    arrays = []
    for dtype, shape in what["arrays"]:
        count = int(np.prod(shape, dtype=np.int64))
        arrays.append(np.frombuffer(message, dtype, count, at).reshape(shape))
        at += arrays[-1].nbytes
    return what, arrays
