"""The tensor element types that a payload and the runtime know, by their code.

The codes are those of PyTorch's ``ScalarType``; ExecuTorch and the C shims use the same ones. The
runtimes' table is ``native/src/slim/dtypes.inc``; a test compares the two.
"""

from __future__ import annotations

from typing import NamedTuple

NO_DTYPE = 255
"""The code that stands in a payload where a value is not a tensor."""


class DType(NamedTuple):
    """One element type: its code, its name in PyTorch, and the bytes one element takes."""

    code: int
    name: str
    nbytes: int


_ALL = (
    DType(0, "uint8", 1),
    DType(1, "int8", 1),
    DType(2, "int16", 2),
    DType(3, "int32", 4),
    DType(4, "int64", 8),
    DType(5, "float16", 2),
    DType(6, "float32", 4),
    DType(7, "float64", 8),
    DType(9, "complex64", 8),
    DType(10, "complex128", 16),
    DType(11, "bool", 1),
    DType(15, "bfloat16", 2),
    DType(23, "float8_e5m2", 1),
    DType(24, "float8_e4m3fn", 1),
    DType(27, "uint16", 2),
    DType(28, "uint32", 4),
    DType(29, "uint64", 8),
)

BY_CODE = {dtype.code: dtype for dtype in _ALL}
BY_NAME = {dtype.name: dtype for dtype in _ALL}


def dtype_name(code: int) -> str:
    """Return PyTorch's name of a dtype code, or ``"dtype <code>"`` for one that is not known."""
    known = BY_CODE.get(code)
    return known.name if known else f"dtype {code}"
