"""Describe a partition's inputs and outputs for the payload."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from executorch.exir.tensor import dim_order_from_stride
from torch._guards import detect_fake_mode

from aoti_plugins.dtypes import BY_NAME, NO_DTYPE
from aoti_plugins.errors import LoweringError
from aoti_plugins.payload import ValueKind, ValueSpec

INT64_MAX = 2**63 - 1
_TYPICAL_SIZE = 2


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
        dtype = dtype_code(value.dtype, what)
        return ValueSpec(ValueKind.TENSOR, dtype, dims, _dim_order(value, what))
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


def without_gaps(value: torch.Tensor) -> torch.Tensor:
    """A fake tensor as the runtime passes it: the order of its dimensions, and no gaps.

    An example input may be part of a larger tensor (``x[:, ::2]``); ExecuTorch describes layouts by
    the order of dimensions only.
    """
    strides: dict[int, int | torch.SymInt] = {}
    step: int | torch.SymInt = 1
    for dim in reversed(_dim_order(value, "an input")):
        strides[dim] = step
        step = step * torch.sym_max(value.size(dim), 1)
    wanted = tuple(strides[dim] for dim in range(value.dim()))
    pairs = zip(value.size(), value.stride(), wanted, strict=True)
    if all(hint(size) <= 1 or hint(one) == hint(other) for size, one, other in pairs):
        return value
    with detect_fake_mode((value,)) or contextlib.nullcontext():
        return torch.empty_strided(value.size(), wanted, dtype=value.dtype, device=value.device)


def _dim_order(value: torch.Tensor, what: str) -> tuple[int, ...]:
    strides = tuple(map(hint, value.stride()))
    if 0 in strides:
        raise LoweringError(
            f"{what} has strides {list(strides)}, and ExecuTorch cannot pass a tensor that repeats "
            "its elements; export with a contiguous example input, or return a contiguous copy"
        )
    return tuple(int(dim) for dim in dim_order_from_stride(strides)) if strides else ()


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
    """A concrete value that a size can have: the example's, or one where data decides."""
    if isinstance(size, int):
        return size
    node = size.node
    if node.has_hint():
        return int(node.hint)
    return int(node.expr.subs({s: _likely(node.shape_env, s) for s in node.expr.free_symbols}))


def _likely(shape_env: Any, symbol: Any) -> int:
    """Neither 0 nor 1 if it can be helped: these sizes say nothing about an order of strides."""
    found = shape_env.bound_sympy(symbol)
    low = int(found.lower) if found.lower.is_Integer else 0
    return max(low, min(_TYPICAL_SIZE, int(found.upper) if found.upper.is_Integer else INT64_MAX))
