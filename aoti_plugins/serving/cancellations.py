"""How ExecuTorch's server tells a worker that nobody waits for an answer any more."""

from __future__ import annotations

import os
from collections.abc import Mapping

FD_VARIABLE = "EXECUTORCH_LLM_WORKER_CONTROL_FD"
"""Names the end of a pipe; must match the server's ``worker_client.py``."""

_ID_NBYTES = 8  # of one number, little-endian
_READ_NBYTES = 4096


class Cancellations:
    """Numbers of requests that were cancelled, as they come through a pipe.

    Args:
        fd: the end to read from; ``None`` where there is none.
    """

    def __init__(self, fd: int | None) -> None:
        self._fd = fd
        self._last = 0
        self._rest = b""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Cancellations:
        """The pipe that the server gave this process, if it did."""
        try:
            fd = int(environment[FD_VARIABLE])
            os.set_blocking(fd, False)
        except (KeyError, ValueError, OSError):
            return cls(None)
        return cls(fd)

    @property
    def are_possible(self) -> bool:
        """Whether there is a pipe."""
        return self._fd is not None

    def include(self, request_id: int | None) -> bool:
        """Whether a request was cancelled; never waits."""
        if self._fd is not None and request_id is not None:
            self._read(self._fd)
        return request_id is not None and request_id == self._last

    def _read(self, fd: int) -> None:
        """Read what has come. Numbers only grow, so that the last one is enough."""
        try:
            while found := os.read(fd, _READ_NBYTES):
                whole = self._rest + found
                cut = len(whole) - len(whole) % _ID_NBYTES
                if cut:
                    self._last = int.from_bytes(whole[cut - _ID_NBYTES : cut], "little")
                self._rest = whole[cut:]
        except BlockingIOError:
            return
        self._fd = None  # closed: nothing more comes
