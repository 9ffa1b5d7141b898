"""Binds what a caller passes to the C structs of a method's inputs, in place where possible."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

from aoti_plugins.errors import ProgramError
from aoti_plugins.runtime import _dlpack
from aoti_plugins.runtime._runner import Tag, Value
from aoti_plugins.runtime.specs import ValueInfo

NEUTRAL, TORCH, NUMPY, CUDA, BORROWED = 0, 1, 2, 4, 8
"""What an input asks the outputs to be, as bits; DLPack asks for numpy arrays. ``CUDA`` comes with
tensors on a GPU, of whatever library: outputs there are torch tensors. ``BORROWED`` comes with
those of other libraries than torch, whose streams do not know who reads their memory."""

_SCALARS: dict[str, Any] = {
    "int": int,
    "double": (int, float),
    "bool": bool,
    "none": type(None),
}


_NO_NUMBERS = (
    ". ExecuTorch cannot pass a number that changes: let the model take a tensor of one element "
    "and call .item() on it"
)


class InputSlot:
    """One input of one method; owns the memory that its C struct points to.

    ``bind`` is the whole of the work per call. What depends on the shape is written only when the
    shape changes.
    """

    def __init__(
        self,
        value: Value,
        index: int,
        info: ValueInfo,
        dtype: int,
        method: str,
        kept: list[object],
    ) -> None:
        """Prepare the struct.

        Args:
            value: the input's struct, which the native side reads.
            index: position of the input.
            info: what the method expects.
            dtype: the same element type as a code.
            method: the method's name, for messages.
            kept: gets what has to stay alive for one call; the caller empties it.
        """
        self._value = value
        self._info = info
        named = f" ({info.name})" if info.name else ""
        self._what = f"input {index}{named} of method {method!r}"
        ndim = len(info.shape)
        self._sizes = (ctypes.c_int64 * max(ndim, 1))(*info.shape)
        self._strides = (ctypes.c_int64 * max(ndim, 1))(*_dlpack.contiguous(info.shape))
        self._shape: object = None
        self._on_gpu = False
        self._is_complex = info.dtype.startswith("complex")
        self._torch_dtype: object = None
        self._torch_layout: object = None
        self._numpy_dtype: object = None
        self._keep = kept.append
        self.binders: dict[type, Callable[[Any], int]] = {}
        """Functions that bind, by type of the value; ``bind`` adds to them."""
        if info.kind == "tensor":
            value.tag = Tag.TENSOR
            value.dtype = dtype
            value.ndim = ndim
            value.device_type = 0
            value.sizes = ctypes.addressof(self._sizes)
            value.strides = ctypes.addressof(self._strides)

    def bind(self, value: Any) -> int:
        """Point the C struct to a value; returns which library the value came from.

        Raises:
            ProgramError: the value is not what the method takes; names the input, found and
            expected.
        """
        binder = self.binders.get(type(value))
        if binder is None:
            binder = self.binders[type(value)] = self._choose(value)
        return binder(value)

    def _choose(self, value: Any) -> Callable[[Any], int]:
        kind = self._info.kind
        if kind != "tensor":
            scalar = _SCALARS.get(kind)
            wrong_bool = kind != "bool" and isinstance(value, bool)
            if scalar is None or not isinstance(value, scalar) or wrong_bool:
                advice = _NO_NUMBERS if kind == "none" and isinstance(value, (int, float)) else ""
                raise self._error(f"found {_describe(value)}, expected {kind}{advice}")
            return getattr(self, f"_bind_{kind}")
        torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
        if torch is not None and isinstance(value, torch.Tensor):
            self._torch_dtype = getattr(torch, self._info.dtype)
            self._torch_layout = torch.strided
            return self._bind_torch
        if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
            self._numpy_dtype = _numpy_dtype(numpy, self._info.dtype)
            return self._bind_numpy
        if hasattr(value, "__dlpack__"):
            return self._bind_dlpack
        raise self._error(
            f"found {_describe(value)}, expected a {self._info} as torch tensor, numpy array, or "
            "anything that has __dlpack__"
        )

    def _bind_torch(self, tensor: Any) -> int:
        if tensor.dtype is not self._torch_dtype:
            self._wrong_dtype(str(tensor.dtype).removeprefix("torch."), ".to(torch.{})")
        on_gpu = not tensor.is_cpu
        if tensor.layout is not self._torch_layout or (on_gpu and not tensor.is_cuda):
            found = f"device {str(tensor.device)!r} and layout {tensor.layout}"
            raise self._error(
                f"the tensor has {found}, expected 'cpu' or 'cuda' and a dense layout"
            )
        if tensor.is_neg() or (self._is_complex and tensor.is_conj()):
            tensor = tensor.resolve_conj().resolve_neg()
            self._keep(tensor)
        shape = tensor.shape
        if not tensor.is_contiguous():
            self._describe(shape, tensor.stride())
            self._shape = None
        elif shape != self._shape:
            self._describe(shape, None)
        self._value.data = tensor.data_ptr()
        if on_gpu is not self._on_gpu:
            self._place(on_gpu)
        return TORCH | CUDA if on_gpu else TORCH

    def _bind_numpy(self, array: Any) -> int:
        known = self._numpy_dtype is not None and array.dtype == self._numpy_dtype
        if not known or not array.flags.c_contiguous or not array.ndim:
            array = self._plain(array)
            self._keep(array)
        shape = array.shape
        if shape != self._shape:
            self._describe(shape, None)
        if self._on_gpu:
            self._place(False)
        try:
            self._value.data = ctypes.addressof(ctypes.c_char.from_buffer(array))
        except (TypeError, ValueError, BufferError):  # read-only, empty, or of an added dtype
            self._value.data = array.ctypes.data
        return NUMPY

    def _plain(self, array: Any) -> Any:
        """Copy what C code cannot read in place: strided, byte-swapped, or a numpy scalar."""
        import numpy

        if array.dtype.name != self._info.dtype:
            self._wrong_dtype(array.dtype.name, ".astype({!r})")
        return numpy.array(array, dtype=array.dtype.newbyteorder("="), order="C")

    def _bind_dlpack(self, tensor: Any) -> int:
        view = _dlpack.view(tensor, self._what)
        if view.dtype != self._info.dtype:
            self._wrong_dtype(view.dtype, "")
        self._keep(view.owner)
        self._describe(view.shape, view.strides)
        self._shape = None
        self._place(view.on_gpu)
        self._value.data = view.address
        return NUMPY | CUDA | BORROWED if view.on_gpu and _dlpack.torch_has_gpus() else NUMPY

    def _bind_int(self, value: int) -> int:
        if not -(2**63) <= value < 2**63:
            raise self._error(f"{value} does not fit into 64 bits")
        self._value.tag, self._value.int_value = Tag.INT, value
        return NEUTRAL

    def _bind_double(self, value: float) -> int:
        self._value.tag, self._value.double_value = Tag.DOUBLE, value
        return NEUTRAL

    def _bind_bool(self, value: bool) -> int:
        self._value.tag, self._value.int_value = Tag.BOOL, value
        return NEUTRAL

    def _bind_none(self, _: None) -> int:
        self._value.tag = Tag.NONE
        return NEUTRAL

    def _place(self, on_gpu: bool) -> None:
        self._on_gpu = on_gpu
        self._value.device_type = int(on_gpu)

    def _describe(self, shape: Any, strides: Any) -> None:
        """Write sizes and strides (``None``: contiguous), and remember the shape."""
        self._shape = None
        expected = self._info.shape
        if len(shape) != len(expected):
            raise self._error(
                f"found shape {list(shape)}, expected {len(expected)} dimensions {list(expected)}"
            )
        for dim, (size, largest) in enumerate(zip(shape, expected, strict=True)):
            if size > largest:
                raise self._error(
                    f"found shape {list(shape)}, expected at most {largest} in dimension {dim} "
                    f"(largest shape: {list(expected)})"
                )
        if strides is None:
            strides = _dlpack.contiguous(tuple(shape))
        for dim, (size, stride) in enumerate(zip(shape, strides, strict=True)):
            self._sizes[dim] = size
            self._strides[dim] = stride
        self._shape = tuple(shape)

    def _wrong_dtype(self, found: str, how: str) -> None:
        advice = f" Convert it with {how.format(self._info.dtype)}." if how else ""
        raise ProgramError(f"{self._what}: found {found}, expected {self._info.dtype}.{advice}")

    def _error(self, problem: str) -> ProgramError:
        return ProgramError(f"{self._what}: {problem}.")


def _numpy_dtype(numpy: Any, name: str) -> object:
    """Return numpy's dtype of that name; ``None`` if numpy and what extends it have none."""
    try:
        return numpy.dtype(name)
    except TypeError:
        return None


def _describe(value: object) -> str:
    article = "an" if type(value).__name__[0] in "aeiou" else "a"
    return "None" if value is None else f"{article} {type(value).__name__}"
