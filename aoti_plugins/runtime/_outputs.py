"""Turns the C structs of a method's outputs into torch tensors, numpy arrays or Python scalars."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from aoti_plugins.dtypes import BY_CODE, dtype_name
from aoti_plugins.errors import ProgramError
from aoti_plugins.runtime._runner import Runner, Tag, Value
from aoti_plugins.runtime.specs import read_i64

_SPLIT_BY_TORCH = 32768
"""Elements from which PyTorch copies with its threads, which then spin for a while and take the
processors from the next call of a program; ``at::internal::GRAIN_SIZE``."""


class OutputSlot:
    """One output of one method.

    The native side owns the memory until the next call. The slot keeps a view of that memory,
    which stays the same from call to call as long as the address and the shape do; a copy of it is
    what the caller gets.
    """

    def __init__(self, value: Value, index: int, method: str, owner: object) -> None:
        """Prepare for calls.

        Args:
            value: the output's struct, which the native side fills.
            index: position of the output.
            method: the method's name, for messages.
            owner: owns the native memory; views keep it alive.
        """
        self._value = value
        self._index = index
        self._owner = owner
        self._what = f"output {index} of method {method!r}"
        self._address: int | None = None
        self._sizes: Any = ()
        self._shape: list[int] = []
        self._torch_view: Any = None
        self._numpy_view: Any = None
        # Memory of PyTorch's on the GPU with the largest shape there is, and whether the caller
        # has it for good.
        self._gpu_memory: Any = None
        self._gpu_memory_given = False
        self._gpu_shape: list[int] = []
        self._gpu_value = Value(tag=Tag.TENSOR, device_type=1)
        self._gpu_value_address = ctypes.addressof(self._gpu_value)
        self._gpu_sizes: Any = []  # view of the native sizes at this address
        self._gpu_sizes_address: int | None = None
        self._largest: Callable[[], Any] | None = None

    def use_gpu_memory(
        self, native: Runner, method: int, info: Value, fresh: bool, device: Any
    ) -> None:
        """Let the next call write to memory of PyTorch's on the GPU.

        Where the method cannot do that, the output stays in host memory.

        Args:
            native: the runner.
            method: the native method.
            info: what the output is at most.
            fresh: the caller keeps it, so it is new; else that of the last call may do.
            device: ``torch.device`` of the GPU, the same one until ``forget_gpu``.
        """
        if info.tag != Tag.TENSOR:
            return
        if self._gpu_memory is not None and not self._gpu_memory_given and not fresh:
            return
        if self._largest is None:
            torch, dtype = _torch_dtype(info.dtype)
            self._gpu_shape = list(read_i64(info.sizes, info.ndim))
            strides = read_i64(info.strides, info.ndim)
            self._largest = functools.partial(
                torch.empty_strided, self._gpu_shape, strides, dtype=dtype, device=device
            )
            self._gpu_value.nbytes = info.nbytes
        memory = self._largest()
        self._gpu_value.data = memory.data_ptr()
        code = native.set_output(method, self._index, self._gpu_value_address)
        self._gpu_memory = None if code else memory
        self._gpu_memory_given = fresh

    def forget_gpu(self) -> None:
        """The next call may be on another GPU, and gets memory anew."""
        self._largest = None
        self._gpu_memory_given = True

    def use_own_memory(self, native: Runner, method: int) -> None:
        """Undo ``use_gpu_memory``."""
        if self._gpu_memory is not None:
            native.set_output(method, self._index, None)
            self._gpu_memory = None

    def torch(self, copy: bool) -> Any:
        """Return the output as a torch tensor, or as a scalar; without copy, a view."""
        value = self._value
        if value.tag != 1:  # Tag.TENSOR, without the time that an enum takes
            return self._scalar()
        if value.device_type:
            given = self._gpu_memory is not None
            return self._on_gpu(value) if given else _gpu_view(value, self._owner, self._what)
        if self._moved(value) or self._torch_view is None:
            self._torch_view = _torch_view(value, self._owner)
        return _copied(self._torch_view) if copy else self._torch_view.detach()

    def numpy(self, copy: bool) -> Any:
        """Return the output as a numpy array, or as a scalar; see ``torch``."""
        value = self._value
        if value.tag != 1:
            return self._scalar()
        if value.device_type:
            return self.torch(copy)
        dtype = numpy_dtype(value.dtype, self._what)
        if dtype is None:
            return self.torch(copy)
        if self._moved(value) or self._numpy_view is None:
            self._numpy_view = _numpy_view(value, dtype, self._owner)
        return self._numpy_view.copy("K") if copy else self._numpy_view.view()

    def _moved(self, value: Value) -> bool:
        """Whether the kept views are of another memory or shape than the output has now."""
        if value.data == self._address and self._sizes[:] == self._shape:
            return False
        self._address = value.data
        self._sizes = (ctypes.c_int64 * value.ndim).from_address(value.sizes) if value.ndim else []
        self._shape = self._sizes[:]
        self._torch_view = self._numpy_view = None
        return True

    def _on_gpu(self, value: Value) -> Any:
        if value.sizes != self._gpu_sizes_address:
            self._gpu_sizes_address = value.sizes
            sizes = (ctypes.c_int64 * value.ndim).from_address(value.sizes) if value.ndim else []
            self._gpu_sizes = sizes
        shape = self._gpu_sizes[:]
        if shape == self._gpu_shape:
            return self._gpu_memory if self._gpu_memory_given else self._gpu_memory.detach()
        return self._gpu_memory.as_strided(shape, read_i64(value.strides, value.ndim))

    def _scalar(self) -> int | float | bool | str | None:
        value = self._value
        if value.tag == Tag.INT:
            return int(value.int_value)
        if value.tag == Tag.DOUBLE:
            return float(value.double_value)
        if value.tag == Tag.BOOL:
            return bool(value.int_value)
        if value.tag == Tag.NONE:
            return None
        if value.tag == Tag.STRING:
            return ctypes.string_at(value.data, value.nbytes).decode()
        raise ProgramError(f"{self._what} is of a kind that Python cannot take (tag {value.tag})")


def _torch_view(value: Value, owner: object) -> Any:
    torch, dtype = _torch_dtype(value.dtype)
    shape, strides = read_i64(value.sizes, value.ndim), read_i64(value.strides, value.ndim)
    if not value.nbytes:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(_borrow(value, owner), dtype=dtype).as_strided(shape, strides)


class _GpuBytes:
    """Memory of a GPU that torch can look at; keeps its owner alive."""

    def __init__(self, value: Value, owner: object) -> None:
        self.owner = owner
        self.__cuda_array_interface__ = {
            "shape": (value.nbytes,),
            "typestr": "|u1",
            "data": (value.data, False),
            "version": 3,
        }


def _copied(view: Any) -> Any:
    """A copy of a torch tensor in host memory that has no gaps, made by this thread alone."""
    if view.numel() < _SPLIT_BY_TORCH:
        return view.clone()
    found = view.new_empty_strided(view.shape, view.stride())
    ctypes.memmove(found.data_ptr(), view.data_ptr(), view.numel() * view.element_size())
    return found


def _gpu_view(value: Value, owner: object, what: str) -> Any:
    """A copy of an output that the program itself keeps on a GPU, made behind its work there."""
    try:
        torch, dtype = _torch_dtype(value.dtype)
    except ImportError as error:
        raise ProgramError(
            f"{what} is in memory of a GPU, which only torch can take. Install torch, or make the "
            "program without skip_d2h_for_method_outputs."
        ) from error
    shape, strides = read_i64(value.sizes, value.ndim), read_i64(value.strides, value.ndim)
    if not value.nbytes:
        return torch.empty(shape, dtype=dtype, device="cuda")
    found = torch.as_tensor(_GpuBytes(value, owner))  # on the GPU that has the address
    current = torch.cuda.current_stream(found.device)
    with torch.cuda.stream(torch.cuda.default_stream(found.device)):
        copy = found.view(dtype).as_strided(shape, strides).clone()
    current.wait_stream(torch.cuda.default_stream(found.device))
    copy.record_stream(current)
    return copy


def _numpy_view(value: Value, dtype: Any, owner: object) -> Any:
    import numpy

    shape, strides = read_i64(value.sizes, value.ndim), read_i64(value.strides, value.ndim)
    if not value.nbytes:
        return numpy.empty(shape, dtype)
    steps = [stride * dtype.itemsize for stride in strides]
    return numpy.ndarray(shape, dtype, _borrow(value, owner), strides=steps)


def _borrow(value: Value, owner: object) -> Any:
    """Wrap an output's memory in a ctypes array, which keeps the method alive."""
    array = _byte_array(value.nbytes).from_address(value.data)
    array.owner = owner
    return array


@functools.lru_cache(maxsize=256)
def _byte_array(nbytes: int) -> Any:
    return type("OutputMemory", (ctypes.c_char * nbytes,), {})


@functools.cache
def _torch_dtype(code: int) -> tuple[Any, Any]:
    import torch

    return torch, getattr(torch, dtype_name(code))


@functools.cache
def numpy_dtype(code: int, what: str) -> Any:
    """Return numpy's dtype; ``None`` where only torch can hold it.

    numpy itself has no bfloat16 and no 8-bit floats; the package ml_dtypes adds them.
    """
    import numpy

    name = BY_CODE[code].name
    if hasattr(numpy, name) or name == "bool":
        return numpy.dtype(name)
    if find_spec("ml_dtypes"):
        return numpy.dtype(getattr(import_module("ml_dtypes"), name))
    if find_spec("torch"):
        return None
    raise ProgramError(
        f"{what} is {name}, which numpy does not have. Install ml_dtypes (pip install ml_dtypes) "
        "to get it as a numpy array, or torch to get it as a tensor."
    )
