"""Turns the C structs of a method's outputs into torch tensors, numpy arrays or Python scalars."""

from __future__ import annotations

import ctypes
import functools
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from aoti_plugins.dtypes import BY_CODE, dtype_name
from aoti_plugins.errors import ProgramError
from aoti_plugins.runtime._runner import Tag, Value
from aoti_plugins.runtime.specs import read_i64


class OutputSlot:
    """One output of one method.

    The native side owns the memory until the next call; ``torch`` and ``numpy`` copy it unless
    told not to. What depends on the shape is worked out only when the shape changes.
    """

    def __init__(self, value: Value, index: int, method: str) -> None:
        self._value = value
        self._what = f"output {index} of method {method!r}"
        self._layout = b""
        self._shape: tuple[int, ...] = ()
        self._strides: tuple[int, ...] = ()
        self._contiguous = True

    def torch(self, copy: bool, owner: object) -> Any:
        """Return the output as a torch tensor, or as a scalar."""
        value = self._value
        if value.tag != Tag.TENSOR:
            return self._scalar()
        self._update_layout()
        torch, dtype = _torch_dtype(value.dtype)
        if copy or not value.nbytes:
            result = torch.empty_strided(self._shape, self._strides, dtype=dtype)
            ctypes.memmove(result.data_ptr(), value.data, value.nbytes)
            return result
        flat = torch.frombuffer(_borrow(value, owner), dtype=dtype)
        return flat.as_strided(self._shape, self._strides)

    def numpy(self, copy: bool, owner: object) -> Any:
        """Return the output as a numpy array, or as a scalar."""
        value = self._value
        if value.tag != Tag.TENSOR:
            return self._scalar()
        dtype = _numpy_dtype(value.dtype, self._what)
        if dtype is None:
            return self.torch(copy, owner)
        self._update_layout()
        import numpy

        if (copy and self._contiguous) or not value.nbytes:
            result = numpy.empty(self._shape, dtype)
            ctypes.memmove(result.ctypes.data, value.data, value.nbytes)
            return result
        nbytes = [stride * dtype.itemsize for stride in self._strides]
        view = numpy.ndarray(self._shape, dtype, _borrow(value, owner), strides=nbytes)
        return view.copy(order="K") if copy else view

    def _update_layout(self) -> None:
        value = self._value
        if not value.ndim:
            return
        nbytes = value.ndim * 8
        layout = ctypes.string_at(value.sizes, nbytes)
        if layout != self._layout:
            self._layout = layout
            self._shape = read_i64(value.sizes, value.ndim)
            self._strides = read_i64(value.strides, value.ndim)
            self._contiguous = list(self._strides) == sorted(self._strides, reverse=True)

    def _scalar(self) -> int | float | bool | None:
        value = self._value
        if value.tag == Tag.INT:
            return int(value.int_value)
        if value.tag == Tag.DOUBLE:
            return float(value.double_value)
        if value.tag == Tag.BOOL:
            return bool(value.int_value)
        if value.tag == Tag.NONE:
            return None
        raise ProgramError(f"{self._what} is of a kind that Python cannot take (tag {value.tag})")


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
def _numpy_dtype(code: int, what: str) -> Any:
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
