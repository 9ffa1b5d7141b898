"""What a method says about its inputs and outputs."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field

from aoti_plugins.dtypes import dtype_name
from aoti_plugins.interface.contents import InterfaceValue, type_text
from aoti_plugins.runtime._runner import Tag, Value


@dataclass(frozen=True)
class ValueInfo:
    """One input or output of a method.

    Attributes:
        kind: ``"tensor"``, ``"int"``, ``"double"``, ``"bool"``, ``"none"`` or ``"other"``.
        dtype: PyTorch's name of the element type, ``""`` if it is not a tensor.
        shape: the sizes; the largest ones where a dimension is dynamic.
        name: of an input, the parameter and the path in it, such as ``"batch['ids']"``; empty where
            the program does not say it, and for outputs. It does not count when two are compared.
        bounds: smallest and largest size of each dimension, equal where it is not dynamic; empty
            where the program does not say it. It does not count, either.
    """

    kind: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    name: str = field(default="", compare=False)
    bounds: tuple[tuple[int, int], ...] = field(default=(), compare=False)

    @property
    def named(self) -> str:
        """The type behind the name, if there is one: ``x: float32[0..8, 64]``."""
        return f"{self.name}: {self}" if self.name else str(self)

    def __str__(self) -> str:
        if self.kind != "tensor":
            return self.kind
        return type_text(self.dtype, self.bounds or tuple((size, size) for size in self.shape))


def value_info(value: Value, known: InterfaceValue | None = None) -> ValueInfo:
    """Describe an ``aotip_value``.

    Args:
        value: what the native side says.
        known: what the program says beside it.
    """
    kind, name = Tag(value.tag).name.lower(), known.name if known else ""
    if value.tag != Tag.TENSOR:
        return ValueInfo(kind, name=name)
    shape = read_i64(value.sizes, value.ndim)
    lowest = [low for low, _ in known.bounds] if known else []
    bounds = tuple((min(low, size), size) for low, size in zip(lowest, shape, strict=False))
    return ValueInfo(
        kind, dtype_name(value.dtype), shape, name, bounds if len(bounds) == len(shape) else ()
    )


def read_i64(address: int | None, count: int) -> tuple[int, ...]:
    """Read ``count`` 64-bit integers."""
    if not count or not address:
        return ()
    return tuple((ctypes.c_int64 * count).from_address(address))
