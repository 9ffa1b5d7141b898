"""Reads a DLPack capsule, so that any library's CPU tensors can be inputs, whatever their dtype.

The layout is that of DLPack's ``DLManagedTensor`` (unversioned), which every producer can give.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
from collections.abc import Iterable
from ctypes import c_int32, c_uint8, c_uint16, c_uint64, c_void_p
from typing import Any, NamedTuple

from aoti_plugins.errors import ProgramError
from aoti_plugins.runtime.specs import read_i64

_CPU_DEVICES = (1, 3)  # kDLCPU and kDLCUDAHost, whose memory the host reads too
_CUDA_DEVICE = 2
_LEGACY_DEFAULT_STREAM = 1
_TYPE_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}
_SPECIAL_NAMES = {"bool8": "bool"}


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("type_code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", c_void_p),
        ("strides", c_void_p),
        ("byte_offset", c_uint64),
    )


class View(NamedTuple):
    """Memory that belongs to ``owner``, described."""

    owner: object
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    address: int
    on_gpu: bool


_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype = c_void_p
_pointer_of.argtypes = (ctypes.py_object, ctypes.c_char_p)


def view(value: Any, what: str) -> View:
    """Look at a tensor through ``__dlpack__``.

    The capsule is not consumed: it keeps the memory alive, and gives it back when it is dropped.

    Raises:
        ProgramError: the tensor is neither on the CPU nor on an NVIDIA GPU, or its library
            cannot export it.
    """
    device_type, device_id = value.__dlpack_device__()
    on_gpu = device_type == _CUDA_DEVICE
    if not on_gpu and device_type not in _CPU_DEVICES:
        raise ProgramError(
            f"{what} is a {type(value).__name__} on DLPack device ({device_type}, {device_id}), "
            "expected one on the CPU (1, 0) or on an NVIDIA GPU (2, n). Copy it to the CPU first."
        )
    try:
        # The producer makes the default stream wait for its own, in whose order the program runs.
        capsule = value.__dlpack__(stream=_LEGACY_DEFAULT_STREAM) if on_gpu else value.__dlpack__()
        tensor = _DLTensor.from_address(_pointer_of(capsule, b"dltensor"))
    except Exception as error:
        raise ProgramError(
            f"{what}: {type(value).__name__}.__dlpack__() failed: {error}. "
            "Give a contiguous copy, or a numpy array or torch tensor."
        ) from error
    shape = read_i64(tensor.shape, tensor.ndim)
    strides = read_i64(tensor.strides, tensor.ndim) if tensor.strides else contiguous(shape)
    address = (tensor.data or 0) + tensor.byte_offset
    return View(capsule, _dtype(tensor), shape, strides, address, on_gpu)


@functools.cache
def torch_has_gpus() -> bool:
    """Whether PyTorch is here and can hold results on a GPU."""
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()


def gpu_of(values: Iterable[Any]) -> Any:
    """``torch.device`` of the first value that is on an NVIDIA GPU; there is one."""
    import torch

    places = (v.__dlpack_device__() for v in values if hasattr(v, "__dlpack_device__"))
    return next(torch.device("cuda", index) for kind, index in places if kind == _CUDA_DEVICE)


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a row-major tensor."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def _dtype(tensor: _DLTensor) -> str:
    name = f"{_TYPE_CODES.get(tensor.type_code, f'type{tensor.type_code}_')}{tensor.bits}"
    return _SPECIAL_NAMES.get(name, name) if tensor.lanes == 1 else f"{name}x{tensor.lanes}"
