"""Describe a partition's inputs and outputs for the payload."""

from __future__ import annotations

from typing import Any

import torch
from executorch.exir.tensor import dim_order_from_stride

from aoti_plugins.dtypes import BY_NAME, NO_DTYPE
from aoti_plugins.errors import LoweringError
from aoti_plugins.payload import ValueKind, ValueSpec

INT64_MAX = 2**63 - 1


def value_spec(value: Any, what: str) -> ValueSpec:
    """Describe one value of the program.

    Args:
        value: a node's ``meta["val"]``: a tensor, a symbolic or plain number, or ``None``.
        what: its name, for the error.

    Raises:
        LoweringError: a kind of value or a dtype that a payload cannot carry.
    """
    if isinstance(value, torch.Tensor):
        dims = tuple(bounds(size) for size in value.size())
        order = tuple(int(d) for d in dim_order_from_stride(_hints(value.stride()))) if dims else ()
        return ValueSpec(ValueKind.TENSOR, dtype_code(value.dtype, what), dims, order)
    for kinds, kind in _SCALARS:
        if isinstance(value, kinds):
            return ValueSpec(kind, NO_DTYPE, (), ())
    raise LoweringError(
        f"{what} is a {type(value).__name__}, which a delegate cannot take or return"
    )


_SCALARS = (
    ((bool, torch.SymBool), ValueKind.BOOL),
    ((int, torch.SymInt), ValueKind.INT),
    ((float, torch.SymFloat), ValueKind.FLOAT),
    (type(None), ValueKind.NONE),
)


def dtype_code(dtype: torch.dtype, what: str) -> int:
    """PyTorch's code of a dtype.

    Raises:
        LoweringError: a dtype that a payload cannot carry.
    """
    name = str(dtype).removeprefix("torch.")
    if name not in BY_NAME:
        raise LoweringError(f"{what} has dtype {dtype}, which the payload cannot carry")
    return BY_NAME[name].code


def bounds(size: int | torch.SymInt) -> tuple[int, int]:
    """Smallest and largest value of a size; ``INT64_MAX`` where the program has no bound."""
    if isinstance(size, int):
        return size, size
    node = size.node
    found = node.shape_env.bound_sympy(node.expr)
    upper = int(found.upper) if found.upper.is_Integer else INT64_MAX
    return max(int(found.lower) if found.lower.is_Integer else 0, 0), upper


def hint(size: int | torch.SymInt) -> int:
    """A concrete value that a size can have: the example's."""
    return (
        size
        if isinstance(size, int)
        else int(size.node.hint if size.node.has_hint() else bounds(size)[0])
    )


def _hints(strides: tuple[int | torch.SymInt, ...]) -> tuple[int, ...]:
    return tuple(hint(stride) for stride in strides)
