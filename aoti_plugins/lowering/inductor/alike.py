"""The smallest convolution about which Inductor would be told the same.

A network has a convolution of each size, thirty and more, and a question about one takes as long as
one about any other op. What Inductor makes of it depends on its kernel, strides, padding, groups,
dtypes and layouts, and not on how many channels and how large images are, but for 0 and 1, and for
whether channels come in eights. So it is asked about small ones that stand for all that are alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

_aten = torch.ops.aten

CONVOLUTIONS = {_aten.conv1d.default: 1, _aten.conv2d.default: 2, _aten.conv3d.default: 3}
"""Ops of which one stands for many, with how many dimensions their images have."""

_EIGHTS, _OTHERS, _SIDE, _BATCH = 8, 3, 3, 2


class Convolved(NamedTuple):
    """Sizes of what a convolution is given."""

    images: tuple[int, ...]
    weight: tuple[int, ...]
    groups: int


def smallest_alike(
    images: Sequence[int],
    weight: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Convolved | None:
    """Sizes of a small convolution that stands for one; ``None`` if only that itself does.

    Args:
        images: sizes of the input, with batch and channels.
        weight: sizes of the weight.
        strides: of the kernel, one for each dimension of an image, as the two that follow.
        padding: zeros on each side.
        dilation: distance of a kernel's elements.
        groups: one, or as many as channels come in and go out.
    """
    channels, (out, _, *kernel) = images[1], weight
    if groups == 1:
        found, made, of_each = _few(channels), _few(out), _few(channels)
    elif groups == channels == out:
        found, made, of_each = _few(channels), _few(channels), 1
    else:
        return None
    small = [
        _short(size, d * (k - 1) + 1, s, p)
        for size, k, s, p, d in zip(images[2:], kernel, strides, padding, dilation, strict=True)
    ]
    batch = min(images[0], _BATCH)
    return Convolved((batch, found, *small), (made, of_each, *kernel), 1 if groups == 1 else found)


def _few(channels: int) -> int:
    if channels < _OTHERS:
        return channels
    return _OTHERS if channels % _EIGHTS else _EIGHTS


def _short(size: int, reach: int, stride: int, padding: int) -> int:
    """The length of an image's side for which a result has at least two elements, if it had."""
    return min(size, max(_SIDE, reach + stride - 2 * padding))


def strides_alike(
    sizes: Sequence[int], strides: Sequence[int], small: Sequence[int]
) -> tuple[int, ...] | None:
    """Strides of the small tensor in the layout of the large one; ``None`` for other layouts.

    The outermost dimension may have a gap, as it has in a part of the channels; the small one's has
    one, too.
    """
    order = sorted(range(len(sizes)), key=lambda dim: (strides[dim], -dim))
    outermost = order[-1]
    dense, found = _dense(sizes, order), _dense(small, order)
    if any(strides[dim] != dense[dim] for dim in order[:-1]):
        return None
    gap = 2 if strides[outermost] > dense[outermost] else 1
    return tuple(step * gap if dim == outermost else step for dim, step in enumerate(found))


def _dense(sizes: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """Strides without gaps, the first dimension of an order the innermost."""
    found, step = [0] * len(sizes), 1
    for dim in order:
        found[dim] = step
        step *= max(sizes[dim], 1)
    return tuple(found)


def widened(value: Any, dims: int) -> tuple[int, ...]:
    """An argument that may be one number for all dimensions."""
    given = (value,) if isinstance(value, int) else tuple(value)
    return given * dims if len(given) == 1 else given
