"""The operator shims of the MPS runtime from Python: torch tensors in, torch tensors out.

They run in a program of ``libmps_operators.so`` (native/tests/mps_operators.cpp), over the stand-in
for Metal.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from mps_support import SCHEDULES

MPS = 13  # torch's code of the device type
_CODES = {
    torch.uint8: 0,
    torch.int8: 1,
    torch.int16: 2,
    torch.int32: 3,
    torch.int64: 4,
    torch.float16: 5,
    torch.float32: 6,
    torch.float64: 7,
    torch.complex64: 9,
    torch.bool: 11,
    torch.bfloat16: 15,
}
_DTYPES = {code: dtype for dtype, code in _CODES.items()}


class OperatorError(Exception):
    """A shim failed; the message is the runtime's reason."""


class MpsTensor:
    """A tensor of the runtime, freed with this object."""

    def __init__(self, operators: Operators, handle: ctypes.c_void_p) -> None:
        self.operators = operators
        self.handle = handle

    def __del__(self) -> None:
        self.operators.call("aoti_torch_delete_tensor_object", self.handle)

    def _int(self, name: str) -> int:
        value = ctypes.c_int64()
        self.operators.call(name, self.handle, ctypes.byref(value))
        return value.value

    def _ints(self, name: str) -> list[int]:
        address = ctypes.POINTER(ctypes.c_int64)()
        self.operators.call(name, self.handle, ctypes.byref(address))
        return address[: self._int("aoti_torch_get_dim")]

    def torch(self) -> torch.Tensor:
        """A copy, once the GPU is done; strides as they are."""
        dtype = ctypes.c_int32()
        self.operators.call("aoti_torch_get_dtype", self.handle, ctypes.byref(dtype))
        sizes = self._ints("aoti_torch_get_sizes")
        strides = self._ints("aoti_torch_get_strides")
        result = torch.empty_strided(sizes, strides, dtype=_DTYPES[dtype.value])
        if result.numel() > 0:
            host = self.operators.borrow(result)
            self.operators.call("aoti_torch_copy_", host, self.handle, 0)
        return result


class Operators:
    """The shims, and one program that they run in.

    Args:
        library: the path of ``libmps_operators.so``; Metal's stand-in is in the environment.
    """

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library))
        self._library.aotip_test_last_failure.restype = ctypes.c_char_p
        if self._library.aotip_test_begin() != 0:
            raise OperatorError(self.last_failure())

    def call(self, name: str, *arguments: Any) -> None:
        """Call a shim by PyTorch's name.

        Args:
            name: of the shim.
            arguments: tensors of the runtime, numbers (an int is passed as int64, which a smaller
                parameter reads the low bits of), or what ctypes takes.

        Raises:
            OperatorError: it failed.
        """
        function = getattr(self._library, f"aotip_{name}")
        if function(*map(_argument, arguments)) != 0:
            reason = self.last_failure()
            self._library.aotip_test_finish()
            raise OperatorError(reason)

    def last_failure(self) -> str:
        """The reason of this thread's last failure."""
        return bytes(self._library.aotip_test_last_failure()).decode()

    def borrow(self, tensor: torch.Tensor) -> MpsTensor:
        """A tensor of the runtime over the memory of a CPU tensor."""
        return self._from_blob(tensor, tensor.data_ptr())

    def _from_blob(self, tensor: torch.Tensor, address: int) -> MpsTensor:
        handle = ctypes.c_void_p()
        self.call(
            "aoti_torch_create_tensor_from_blob",
            ctypes.c_void_p(address),
            tensor.dim(),
            ints(tensor.shape),
            ints(tensor.stride()),
            0,
            _CODES[tensor.dtype],
            0,
            0,
            ctypes.byref(handle),
        )
        return MpsTensor(self, handle)

    def to_mps(self, tensor: torch.Tensor) -> MpsTensor:
        """A copy of a tensor with its whole storage, in the same strides and with its offset."""
        size = tensor.untyped_storage().nbytes() // tensor.element_size()
        flat = tensor.as_strided((size,), (1,), 0)
        base = ctypes.c_void_p()
        self.call(
            "aoti_torch_empty_strided",
            1,
            ints((size,)),
            ints((1,)),
            _CODES[tensor.dtype],
            MPS,
            0,
            ctypes.byref(base),
        )
        storage = MpsTensor(self, base)
        if size > 0:
            self.call("aoti_torch_copy_", storage, self.borrow(flat), 0)
        handle = ctypes.c_void_p()
        self.call(
            "aoti_torch__reinterpret_tensor",
            storage,
            tensor.dim(),
            ints(tensor.shape),
            ints(tensor.stride()),
            tensor.storage_offset(),
            ctypes.byref(handle),
        )
        return MpsTensor(self, handle)

    def results(self, name: str, count: int, *arguments: Any) -> list[torch.Tensor]:
        """Call a shim whose last parameters are ``count`` new tensors."""
        handles = [ctypes.c_void_p() for _ in range(count)]
        self.call(f"aoti_torch_mps_{name}", *arguments, *map(ctypes.byref, handles))
        return [MpsTensor(self, handle).torch() for handle in handles]


def _argument(value: Any) -> Any:
    if isinstance(value, MpsTensor):
        return value.handle
    if isinstance(value, float):
        return ctypes.c_double(value)
    return ctypes.c_int64(value) if isinstance(value, int) else value


def ints(values: Sequence[int]) -> Any:
    """An array of int64."""
    return (ctypes.c_int64 * max(len(values), 1))(*values)


def optional(tensor: MpsTensor | None) -> Any:
    """What a shim takes for an optional tensor: the address of a handle, or null."""
    return ctypes.byref(tensor.handle) if tensor is not None else None


def dtype_code(dtype: torch.dtype) -> int:
    """Torch's number of a dtype."""
    return _CODES[dtype]


@contextmanager
def schedule(name: str) -> Iterator[None]:
    """The order in which emulated threads run."""
    before = os.environ.get("METAL_HOST_SCHEDULE")
    os.environ["METAL_HOST_SCHEDULE"] = name
    try:
        yield
    finally:
        if before is None:
            del os.environ["METAL_HOST_SCHEDULE"]
        else:
            os.environ["METAL_HOST_SCHEDULE"] = before


_TOLERANCE = {torch.complex64: 1e-4, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 4e-2}


def check(run: Callable[[], torch.Tensor], expected: torch.Tensor) -> None:
    """Compare a result with the expected one under all schedules; integers are equal."""
    limit = _TOLERANCE.get(expected.dtype, 0.0)
    for name in SCHEDULES:
        with schedule(name):
            result = run()
        torch.testing.assert_close(result, expected, rtol=limit, atol=limit, equal_nan=True)


def random(dtype: torch.dtype, *sizes: int, seed: int = 0) -> torch.Tensor:
    """Normally distributed numbers, integers from 0 to 9 (from -9 where signed), or coin tosses."""
    generator = torch.Generator().manual_seed(seed + sum(sizes))
    if dtype.is_floating_point:
        return torch.randn(sizes, generator=generator).to(dtype)
    if dtype == torch.bool:
        return torch.rand(sizes, generator=generator) > 0.5
    least = 0 if dtype == torch.uint8 else -9
    return torch.randint(least, 10, sizes, generator=generator, dtype=dtype)
