"""How many elements lie in each of a number of equal intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from aoti_plugins.lowering.decompositions.search import place_among

_BINS_OF_KERNEL = 4096
"""kHistogramBins in native/src/cuda/kernels/histogram.h."""

_MOST_COPIES = 1024
_MOST_TOTALS = 1 << 18
"""What stays in the cache of a GPU."""


def histc(x: Tensor, bins: int = 100, low: float = 0, high: float = 0) -> Any:
    """``aten.histc.default``: of all elements from ``low`` to ``high``, or all where they agree."""
    if not x.is_floating_point():
        return NotImplemented
    place, inside = _places(x.reshape(-1), bins, low, high)
    return _totals(place, inside.to(torch.float32), bins).to(x.dtype)


def histc_on_cuda(x: Tensor, bins: int = 100, low: float = 0, high: float = 0) -> Any:
    """``aten.histc.default``, where the runtime for NVIDIA GPUs has no kernel for it.

    Threads that add to one number wait for each other, so each bin has several totals, which
    neighbouring elements take in turns.
    """
    if not x.is_floating_point() or (low < high and bins <= _BINS_OF_KERNEL):
        return NotImplemented
    place, inside = _places(x.reshape(-1), bins, low, high)
    copies = max(1, min(_MOST_COPIES, _MOST_TOTALS // bins))
    turn = torch.arange(place.size(0), device=x.device) % copies
    totals = _totals(place * copies + turn, inside.to(torch.float32), bins * copies)
    return totals.view(bins, copies).sum(1).to(x.dtype)


def histogram(
    x: Tensor,
    bins: int = 100,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    """``aten.histogram.bin_ct``: the totals of the weights, and the edges between the bins."""
    flat = x.reshape(-1)
    edges = _edges(flat, bins, range)
    weights = torch.ones_like(flat) if weight is None else weight.reshape(-1)
    place, inside = _bins_of(flat, edges)
    total = _totals(place, torch.where(inside, weights, 0), bins)
    if density:
        total = total / (total.sum() * (edges[1:] - edges[:-1]))
    return total, edges


def histogramdd(
    x: Tensor,
    bins: Sequence[int],
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    """``aten._histogramdd_from_bin_cts.default``: ``x [..., len(bins)]`` to totals ``[*bins]``."""
    points = x.reshape(-1, len(bins))
    place = torch.zeros(points.size(0), dtype=torch.int64, device=x.device)
    counted = torch.ones_like(place, dtype=torch.bool)
    volume = torch.ones((), dtype=x.dtype, device=x.device)
    count = 1
    for axis, width in enumerate(bins):
        bounds = None if range is None else range[2 * axis : 2 * axis + 2]
        edges = _edges(points[:, axis], width, bounds)
        along, inside = _bins_of(points[:, axis], edges)
        place, counted, count = place * width + along, counted & inside, count * width
        volume = volume[..., None] * (edges[1:] - edges[:-1])
    weights = torch.ones_like(points[:, 0]) if weight is None else weight.reshape(-1)
    total = _totals(place, torch.where(counted, weights, 0), count).view(*bins)
    return total / (total.sum() * volume) if density else total


def _places(x: Tensor, bins: int, low: float, high: float) -> tuple[Tensor, Tensor]:
    """The interval of each element, and whether it is in one."""
    if low == high:
        first, last = _bounds(x)
    else:
        first, last = x.new_full((), low), x.new_full((), high)
    place = ((x - first) / (last - first) * bins).to(torch.int64).clamp(0, bins - 1)
    return place, (x >= first) & (x <= last)


def _edges(x: Tensor, bins: int, bounds: Sequence[float] | None) -> Tensor:
    if bounds is not None:
        return torch.linspace(*bounds, bins + 1, dtype=x.dtype, device=x.device)
    first, last = _bounds(x)
    steps = torch.arange(bins + 1, device=x.device).to(x.dtype)
    width = (last - first) / bins
    # From both ends, as torch.linspace does.
    return torch.where(steps * 2 < bins + 1, first + width * steps, last - width * (bins - steps))


def _bounds(x: Tensor) -> tuple[Tensor, Tensor]:
    if isinstance(x.numel(), int) and x.numel() == 0:
        return x.new_zeros(()), x.new_ones(())
    first, last = x.amin(), x.amax()
    is_one = first == last
    return torch.where(is_one, first - 1, first), torch.where(is_one, last + 1, last)


def _bins_of(x: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
    """The bin of each element, and whether it is in one; the last has both of its edges."""
    bins = edges.size(0) - 1
    place = (place_among(edges, x, right=True) - 1).clamp(0, bins - 1)
    return place, (x >= edges[0]) & (x <= edges[bins])


def _totals(place: Tensor, weights: Tensor, count: int) -> Tensor:
    return weights.new_zeros(count).index_add(0, place, weights)
