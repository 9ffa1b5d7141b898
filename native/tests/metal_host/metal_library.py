"""Compiled Metal libraries from Python: load one, run its kernels on host memory."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

_ABI: Final = 1  # must match METAL_HOST_ABI in include/metal_host/abi.h
_DEFAULT_MAX_THREADS: Final = 1024
KINDS: Final = ("device", "constant", "reference", "threadgroup")


class _Argument(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int), ("index", ctypes.c_uint), ("nbytes", ctypes.c_ulonglong))


class _Dispatch(ctypes.Structure):
    _fields_ = (
        ("buffers", ctypes.POINTER(ctypes.c_void_p)),
        ("buffer_nbytes", ctypes.POINTER(ctypes.c_ulonglong)),
        ("group_memory_nbytes", ctypes.POINTER(ctypes.c_ulonglong)),
        ("group_memory_count", ctypes.c_uint),
        ("grid", ctypes.c_uint * 3),
        ("group", ctypes.c_uint * 3),
        ("message", ctypes.c_char_p),
        ("message_nbytes", ctypes.c_ulonglong),
    )


class _Kernel(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("arguments", ctypes.POINTER(_Argument)),
        ("argument_count", ctypes.c_uint),
        ("buffer_count", ctypes.c_uint),
        ("max_threads", ctypes.c_uint),
        ("has_rendezvous", ctypes.c_uint),
        ("launch", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Dispatch))),
    )


class DispatchError(Exception):
    """The emulation found something wrong while a kernel ran."""


class Kernel:
    """One kernel of a library."""

    def __init__(self, table: Any, library: Any) -> None:
        self._table = table
        self._library = library  # stays loaded as long as its kernels live
        self.name: str = table.name.decode()
        self.max_threads: int = table.max_threads or _DEFAULT_MAX_THREADS
        self.waits: bool = bool(table.has_rendezvous)

    @property
    def arguments(self) -> list[tuple[str, int]]:
        """Kind and index of the parameters that are memory."""
        rows = self._table.arguments[: self._table.argument_count]
        return [(KINDS[row.kind], row.index) for row in rows]

    def __call__(
        self,
        buffers: Sequence[Any],
        threads: Sequence[int],
        group: Sequence[int] | None = None,
        group_memory: Sequence[int] = (),
    ) -> None:
        """Run over a grid of threads, as ``dispatchThreads:threadsPerThreadgroup:``.

        Args:
            buffers: by index: tensors (contiguous, on the CPU), bytes, ints (as ``long``) or None.
            threads: size of the grid, one to three numbers.
            group: size of a threadgroup; by default as many as may be along the first.
            group_memory: bytes of the arguments ``[[threadgroup(n)]]``.

        Raises:
            DispatchError: a threadgroup is too large, or the emulation found a fault.
        """
        grid = [*threads, 1, 1][:3]
        size = [*(group or [min(grid[0], self.max_threads)]), 1, 1][:3]
        if size[0] * size[1] * size[2] > self.max_threads:
            raise DispatchError(f"{size} threads per threadgroup, of at most {self.max_threads}")
        kept = [_memory(buffer) for buffer in buffers]
        count = max(len(kept), self._table.buffer_count)
        addresses = (ctypes.c_void_p * count)(*[address for address, _, _ in kept])
        nbytes = (ctypes.c_ulonglong * count)(*[length for _, length, _ in kept])
        memories = (ctypes.c_ulonglong * max(1, len(group_memory)))(*group_memory)
        message = ctypes.create_string_buffer(1024)
        dispatch = _Dispatch(
            buffers=addresses,
            buffer_nbytes=nbytes,
            group_memory_nbytes=memories,
            group_memory_count=len(group_memory),
            grid=(ctypes.c_uint * 3)(*grid),
            group=(ctypes.c_uint * 3)(*size),
            message=ctypes.cast(message, ctypes.c_char_p),
            message_nbytes=len(message),
        )
        if self._table.launch(ctypes.byref(dispatch)) != 0:
            raise DispatchError(message.value.decode())


def _memory(buffer: Any) -> tuple[int | None, int, Any]:
    """Address and bytes of an argument, and what has to live as long as it is used."""
    if buffer is None:
        return None, 0, None
    if isinstance(buffer, int):
        number = ctypes.c_longlong(buffer)
        return ctypes.addressof(number), 8, number
    if isinstance(buffer, bytes):
        copied = ctypes.create_string_buffer(buffer, len(buffer))
        return ctypes.addressof(copied), len(buffer), copied
    if not buffer.is_contiguous():
        raise ValueError("tensors have to be contiguous")
    return buffer.data_ptr(), buffer.numel() * buffer.element_size(), buffer


class Library(Mapping[str, Kernel]):
    """The kernels of a compiled library, by name."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(os.fspath(path))
        get = self._library.metal_host_kernels
        get.restype = ctypes.POINTER(_Kernel)
        abi, count = ctypes.c_uint(), ctypes.c_uint()
        table = get(ctypes.byref(abi), ctypes.byref(count))
        if abi.value != _ABI:
            raise ValueError(f"{path} has kernels of version {abi.value}, not {_ABI}")
        self._kernels = {
            k.name: k for k in (Kernel(row, self._library) for row in table[: count.value])
        }

    def __getitem__(self, name: str) -> Kernel:
        return self._kernels[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kernels)

    def __len__(self) -> int:
        return len(self._kernels)


@contextmanager
def schedule(name: str, inactive: str = "poison") -> Iterator[None]:
    """Choose the order of threads, and what an inactive lane holds, for the dispatches inside."""
    wanted = {"METAL_HOST_SCHEDULE": name, "METAL_HOST_INACTIVE": inactive}
    before = {key: os.environ.get(key) for key in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value
