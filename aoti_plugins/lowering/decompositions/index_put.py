"""Writing several values to one place: the last one stays, as on the CPU.

PyTorch leaves open which one stays, and on a GPU it is a race. So each value is replaced by the
last one for its place; it does not matter then which write is the last. That costs the square of
the number of places and is done for a few of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor

from aoti_plugins.lowering.decompositions.arithmetic import is_integer

_MOST_PLACES = 64

_is_inner: ContextVar[bool] = ContextVar("_is_inner", default=False)


def index_put(
    x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False
) -> Any:
    """``aten.index_put`` with 2 to 64 places, known when the program is lowered."""
    given = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    has_mask = any(is_mask(index) for _, index in given)
    is_one_value = all(isinstance(size, int) and size == 1 for size in values.shape)
    if accumulate or has_mask or is_one_value or not given or _is_inner.get():
        return NotImplemented
    shape = torch.broadcast_shapes(*(index.shape for _, index in given))
    is_static = all(isinstance(size, int) for size in shape)
    if not is_static or not 2 <= math.prod(shape) <= _MOST_PLACES:
        return NotImplemented
    last = _last_equal(_places(x, given, shape))
    values = _reorder(values, last, x, [dim for dim, _ in given], shape)
    token = _is_inner.set(True)  # that one is left to Inductor
    try:
        return torch.ops.aten.index_put.default(x, indices, values)
    finally:
        _is_inner.reset(token)


def index_put_on_cuda(
    x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False
) -> Any:
    """``aten.index_put``: what Inductor adds up with atomics that Triton has is left to it."""
    given = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    if len(given) == 1 and is_mask(given[0][1]):
        return _masked(x, *given[0], values, accumulate)
    if not accumulate:
        return index_put(x, indices, values)
    if not is_integer(x.dtype) or x.dtype == torch.int32 or not given or x.dim() == 0:
        return NotImplemented
    if any(is_mask(index) for _, index in given):
        return NotImplemented
    if x.dtype != torch.int64:
        wide = torch.ops.aten.index_put(x.int(), indices, values.int(), True)
        return wide.to(x.dtype)
    return _added(x, given, values)


def is_mask(index: Tensor) -> bool:
    """Whether an index says of each place whether it is written."""
    return index.dtype in (torch.bool, torch.uint8)


def _masked(x: Tensor, dim: int, mask: Tensor, values: Tensor, accumulate: bool) -> Any:
    if dim != 0 or accumulate or mask.dim() == 0:
        return NotImplemented
    whole = mask.bool().reshape([*mask.shape, *[1] * (x.dim() - mask.dim())]).expand(x.shape)
    is_rest = values.dim() <= x.dim() - mask.dim()
    if is_rest or (isinstance(values.size(0), int) and values.size(0) == 1):
        rest = values[0] if values.dim() == x.dim() - mask.dim() + 1 else values
        return torch.where(whole, rest, x)
    full = values.expand([values.size(0), *x.shape[mask.dim() :]])
    return torch.ops.aten.masked_scatter(x, whole, full)


def _added(x: Tensor, given: Sequence[tuple[int, Tensor]], values: Tensor) -> Tensor:
    """By ``scatter_reduce``, with the indexed dims as one in front of all others."""
    shape = torch.broadcast_shapes(*(index.shape for _, index in given))
    dims = [dim for dim, _ in given]
    rest = [dim for dim in range(x.dim()) if dim not in dims]
    order = [*dims, *rest]
    places = _places(x, given, shape)
    moved = x.permute(order)
    first = dims[0] if _are_neighbours(dims) else 0
    sizes = [x.size(dim) for dim in rest]
    width = math.prod(sizes)
    flat = moved.reshape(math.prod(x.size(dim) for dim in dims), width)
    full = values.expand([*sizes[:first], *shape, *sizes[first:]])
    front = full.movedim(list(range(first, first + len(shape))), list(range(len(shape))))
    front = front.reshape(places.size(0), width)
    found = flat.scatter_reduce(0, places[:, None].expand(front.shape), front, "sum")
    back = [order.index(dim) for dim in range(x.dim())]
    return found.reshape(moved.shape).permute(back).contiguous()


def _places(x: Tensor, given: Sequence[tuple[int, Tensor]], shape: Sequence[int]) -> Tensor:
    """``[n]``: a number for each place that is written, the same for the same place.

    Where an index is out of range it is the number of all places, which is out of range as well.
    """
    places = torch.zeros(shape, dtype=torch.int64, device=x.device)
    is_inside = torch.ones(shape, dtype=torch.bool, device=x.device)
    count = math.prod(x.size(dim) for dim, _ in given)
    for dim, index in given:
        size = x.size(dim)
        place = torch.where(index < 0, index + size, index)
        is_inside = is_inside & (place >= 0) & (place < size)
        places = places * size + place
    return torch.where(is_inside, places, count).reshape(-1)


def _last_equal(places: Tensor) -> Tensor:
    """``[n]``: for each element the index of the last one that equals it."""
    order = torch.arange(places.size(0), device=places.device)
    return torch.where(places[:, None] == places, order, 0).amax(1)


def _reorder(
    values: Tensor, order: Tensor, x: Tensor, dims: list[int], shape: Sequence[int]
) -> Tensor:
    """Expand the values of an ``index_put`` and take them in another order of places."""
    # The indexed dims become those of the indices, in front unless they are neighbours.
    first = dims[0] if _are_neighbours(dims) else 0
    rest = [size for dim, size in enumerate(x.shape) if dim not in dims]
    full = [*rest[:first], *shape, *rest[first:]]
    flat = values.expand(full).reshape([*rest[:first], order.size(0), *rest[first:]])
    taken = torch.ops.aten._unsafe_index(flat, [*[None] * first, order])
    return taken.reshape(full)


def _are_neighbours(dims: list[int]) -> bool:
    return dims == list(range(dims[0], dims[-1] + 1))
