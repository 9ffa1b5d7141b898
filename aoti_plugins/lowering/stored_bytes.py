"""Bytes of weights on their way from the model into the file, without a copy of them on the way.

ExecuTorch writes named data that is not ``bytes`` through the methods of its ``FileBackedData``
(``exir/_serialize/_cord.py``). Here these read the tensor's own memory, which may be a checkpoint
that is mapped: lowering then holds no weights at all.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import logging
import os
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import torch
from executorch.exir._serialize._cord import FileBackedData

from aoti_plugins.errors import LoweringError
from aoti_plugins.lowering.cores import usable_cores

logger = logging.getLogger(__name__)

# Less is copied: nothing is gained, and what a caller does to such a tensor does not matter.
_LEAST_NBYTES = 2**16

# Of threads that compute digests, by which they give way to compilers.
_NICE = 10


class TensorBytes(FileBackedData):
    """A part of a tensor's storage as named data; keeps the storage alive.

    The tensor must not change until the program is written: its digest is part of the payload. A
    change is an error where it is written; ``ExecutorchProgramManager.save`` logs it, as it does
    with every error, and leaves a file that is too short to be loaded.

    Args:
        view: the bytes, one-dimensional ``uint8``, on the CPU.
        threads: compute the digest, until whoever asks for it waits; ``None``: it is computed now.
    """

    def __init__(self, view: torch.Tensor, threads: DigestThreads | None = None) -> None:
        self._view = memoryview(view.numpy())
        self._sha256 = threads.digest(view) if threads else _digest(self._view)
        self._finalizer = None

    def __len__(self) -> int:
        return self._view.nbytes

    def __bytes__(self) -> bytes:
        return self.to_bytes()

    def prefix(self, size: int) -> bytes:
        """The first bytes."""
        return bytes(self._view[:size])

    def sha256(self) -> bytes:
        """The digest, as it was when the program was lowered."""
        if not isinstance(self._sha256, bytes):
            self._sha256 = self._sha256.result()
        return self._sha256

    def to_bytes(self) -> bytes:
        """A copy of all.

        Raises:
            LoweringError: the tensor has changed since.
        """
        self._check()
        return bytes(self._view)

    def write_to_file(self, outfile: io.BufferedIOBase) -> None:
        """Write all.

        Raises:
            LoweringError: the tensor has changed since; nothing is written.
        """
        self._check()
        outfile.write(self._view)

    def _check(self) -> None:
        if _digest(self._view) != self.sha256():
            raise LoweringError(
                f"a weight of {len(self)} bytes has changed since the program was lowered, and the "
                "program's digest of it no longer fits: write the program before the model is "
                "trained or changed, or lower it again"
            )


class DigestThreads(ThreadPoolExecutor):
    """Threads that compute digests, of the same bytes once.

    They are as many as there are cores, and leave these to the compilers beside them: a compiler
    takes as long as it takes, and digests take what it leaves.
    """

    def __init__(self) -> None:
        super().__init__(usable_cores(), "digests", _give_way)
        # With the bytes, so that no others get their place.
        self._known: dict[tuple[int, int], tuple[torch.Tensor, Future[bytes]]] = {}

    def digest(self, view: torch.Tensor) -> Future[bytes]:
        """Compute a digest, or know that of it already.

        Args:
            view: the bytes, one-dimensional ``uint8``, on the CPU.
        """
        place = view.data_ptr(), view.nbytes
        if place not in self._known:
            self._known[place] = view, self.submit(_digest, memoryview(view.numpy()))
        return self._known[place][1]


@contextlib.contextmanager
def digests_meanwhile() -> Iterator[DigestThreads]:
    """Threads that compute digests; where the block is left early they begin no other."""
    threads = DigestThreads()
    try:
        yield threads
    finally:
        threads.shutdown(cancel_futures=True)


def _give_way() -> None:
    """Let others go first from here on; on Linux, where a thread has a priority of its own."""
    if sys.platform != "linux":
        return
    try:
        os.nice(_NICE)
    except OSError as error:  # a sandbox forbids it: nothing but time is lost
        logger.debug("digests do not give way to compilers: %s", error)


def _digest(data: bytes | memoryview) -> bytes:
    return hashlib.sha256(data).digest()


def stored(
    tensor: torch.Tensor,
    low: int,
    high: int,
    may_change: bool,
    threads: DigestThreads | None = None,
) -> bytes | TensorBytes:
    """Bytes of a tensor's storage, as named data takes them.

    Args:
        tensor: on any device.
        low: the first byte of its storage.
        high: the end, in bytes.
        may_change: whether the model writes to it, so that these must be a copy.
        threads: compute its digest, as for ``TensorBytes``.
    """
    storage = tensor.untyped_storage()
    raw = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)[low:high].cpu()
    if may_change or high - low < _LEAST_NBYTES:
        return raw.numpy().tobytes()
    return TensorBytes(raw, threads)


def sha256_of(data: bytes | TensorBytes) -> bytes:
    """The digest of named data, 32 bytes."""
    return data.sha256() if isinstance(data, TensorBytes) else _digest(data)
