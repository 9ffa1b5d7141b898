"""Results whose sizes the data decides: count first, then gather that many.

The count is read with ``.item()``. From there on the size is a number like any other, and all that
is computed with it is generated code. Elements come in row-major order, as on PyTorch's devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import get_proxy_mode

from aoti_plugins.lowering.decompositions import complex_numbers
from aoti_plugins.lowering.decompositions.search import place_among

_aten = torch.ops.aten


def nonzero(x: Tensor) -> Any:
    """``aten.nonzero.default``: ``[count, x.dim()]``, column-major, as PyTorch describes it."""
    if x.dim() == 0:
        count = _size_from((x != 0).sum(), 1)
        return torch.zeros((count, 0), dtype=torch.int64, device=x.device)
    return torch.stack(_coordinates(x), 0).t()


def masked_select(x: Tensor, mask: Tensor) -> Any:
    """``aten.masked_select.default``: ``[count]``."""
    shape = torch.broadcast_shapes(x.shape, mask.shape)
    if mask.shape != shape:
        mask = mask.expand(shape)
    return _aten._unsafe_index.Tensor(x.expand(shape).reshape(-1), [_places(mask)])


def index(x: Tensor, indices: Sequence[Tensor | None]) -> Any:
    """``aten.index.Tensor`` with masks: each is as many integer indices as it has dims.

    Also of complex numbers, part by part.
    """
    if x.is_complex():
        return complex_numbers.moved(_aten.index.Tensor, x, indices)
    masks = [one for one in indices if one is not None and is_mask(one)]
    if not masks or any(mask.dim() == 0 for mask in masks):
        return NotImplemented
    integers: list[Tensor | None] = []
    for one in indices:
        integers += _coordinates(one) if one is not None and is_mask(one) else [one]
    if all(one is None or is_mask(one) for one in indices):
        return _aten._unsafe_index.Tensor(x, integers)  # they are places of such a tensor
    return _aten.index.Tensor(x, integers)


def repeat_interleave(repeats: Tensor, *, output_size: int | None = None) -> Any:
    """``aten.repeat_interleave.Tensor``: each index of ``repeats [n]`` as often as it says.

    An ``output_size`` is believed, since it is there so that nothing is read from a GPU: below the
    sum of ``repeats`` it leaves out the last ones, above it the last index is repeated further.
    """
    total = _size_from(repeats.sum()) if output_size is None else output_size
    order = torch.arange(total, device=repeats.device)
    place = place_among(repeats.cumsum(0), order, right=True)
    # Inductor measures kernels with sums that are all zero: also then it is an index.
    return place.clamp(max=repeats.size(0) - 1).to(repeats.dtype)


def composite_repeat_interleave(
    x: Tensor, repeats: Tensor, dim: int | None = None, *, output_size: int | None = None
) -> Any:
    """``aten.repeat_interleave.self_Tensor``: each slice as often as ``repeats`` says."""
    if dim is None:
        x, dim = x.reshape(-1), 0
    if repeats.dim() == 0 or (isinstance(repeats.size(0), int) and repeats.size(0) == 1):
        repeats = repeats.reshape(1).expand(x.size(dim))
    repeated = _aten.repeat_interleave.Tensor(repeats, output_size=output_size)
    return x.index_select(dim, repeated)


def is_mask(index: Tensor) -> bool:
    """Whether an index of ``aten.index`` chooses by truth values."""
    return index.dtype == torch.bool


def _coordinates(x: Tensor) -> list[Tensor]:
    """For each dim of ``x`` the indices ``[count]`` of the elements that are not zero."""
    columns = []
    rest = _places(x)
    for size in reversed(x.shape[1:]):
        columns.append(torch.fmod(rest, size))
        rest = torch.div(rest, size, rounding_mode="trunc")
    return [rest, *reversed(columns)]


def _places(x: Tensor) -> Tensor:
    """``[count]``: where in row-major order the elements that are not zero are.

    The same tensor has one count, however often it is asked about.
    """
    mode = get_proxy_mode()
    if mode is None:
        return _computed_places(x)
    known = _known.setdefault(mode.tracer, {})
    if id(x) not in known:
        known[id(x)] = (x, _computed_places(x))
    return known[id(x)][1]


# By what traces a program: tensors, which are kept so that ids stay theirs, and their places.
_known: WeakKeyDictionary[Any, dict[int, tuple[Tensor, Tensor]]] = WeakKeyDictionary()


def _computed_places(x: Tensor) -> Tensor:
    is_set = (x != 0).reshape(-1)
    numel = is_set.size(0)
    count = _size_from(is_set.sum(), numel)
    # What is not set goes to a place of its own, behind all others.
    # Never below zero, also where Inductor measures kernels with sums that are all zero.
    place = torch.where(is_set, (is_set.cumsum(0) - 1).clamp(min=0), numel)
    order = torch.arange(numel, device=x.device)
    places = torch.zeros(numel + 1, dtype=torch.int64, device=x.device)
    places = _aten._unsafe_index_put.default(places, [place], order)
    return _aten._unsafe_index.Tensor(places, [torch.arange(count, device=x.device)])


def _size_from(number: Tensor, most: int | None = None) -> int:
    """A size that is read from a tensor of one element."""
    size = number.item()
    torch._check(size >= 0)
    if most is not None:
        # PyTorch asks for more than 1 of the bounds of a size, so that it is not taken for one.
        torch._check(size <= (max(most, 2) if isinstance(most, int) else most))
    return size
