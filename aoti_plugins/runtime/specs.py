"""What a method says about its inputs and outputs."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from aoti_plugins.dtypes import dtype_name
from aoti_plugins.runtime._runner import Tag, Value


@dataclass(frozen=True)
class ValueInfo:
    """One input or output of a method.

    Attributes:
        kind: ``"tensor"``, ``"int"``, ``"double"``, ``"bool"``, ``"none"`` or ``"other"``.
        dtype: PyTorch's name of the element type, ``""`` if it is not a tensor.
        shape: the sizes; the largest ones where a dimension is dynamic.
    """

    kind: str
    dtype: str = ""
    shape: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}" if self.kind == "tensor" else self.kind


def value_info(value: Value) -> ValueInfo:
    """Describe an ``aotip_value``."""
    kind = Tag(value.tag).name.lower()
    if value.tag != Tag.TENSOR:
        return ValueInfo(kind)
    return ValueInfo(kind, dtype_name(value.dtype), read_i64(value.sizes, value.ndim))


def read_i64(address: int | None, count: int) -> tuple[int, ...]:
    """Read ``count`` 64-bit integers."""
    if not count or not address:
        return ()
    return tuple((ctypes.c_int64 * count).from_address(address))
