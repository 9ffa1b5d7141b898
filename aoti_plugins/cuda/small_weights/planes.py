"""Weights of 6 bits as the CUDA runtime wants them: see native/src/cuda/kernels/plain_forms.cuh.

A code and 32 are a number of 6 bits: the lowest four are in one plane, the others in another.
"""

from __future__ import annotations

import torch
from torch import Tensor

from aoti_plugins.lowering.small_weights.fields import fields

GROUP = 16
"""Weights of a row that have one scale."""

STEP_DEPTH = 256
"""Weights of a row whose scales have one step."""

_MIDDLE = 32
_PIECE = 32
_CODES_OF_WORD = 8


def pack(codes: Tensor) -> tuple[Tensor, Tensor]:
    """Lay out codes in two planes.

    Args:
        codes: ``[n, k]``, from -32 to 31; ``k`` is a multiple of 32.

    Returns:
        ``[n, k / 2]`` of uint8: two neighbours in a byte, the first in its lower half. ``[n, k /
        4]`` of uint8: of 32 weights four bytes with the even ones of eight each, then four with the
        odd ones.
    """
    numbers = (codes + _MIDDLE).to(torch.uint8)
    low, high = numbers & 15, numbers >> 4
    split = high.unflatten(-1, (-1, _PIECE // _CODES_OF_WORD, _CODES_OF_WORD // 2, 2))
    first, second, third, fourth = split.movedim(-1, -3).unbind(-1)  # [..., parity, word]
    upper = first | second << 2 | third << 4 | fourth << 6
    return low[..., 0::2] | low[..., 1::2] << 4, upper.flatten(-3)


def unpack(low: Tensor, high: Tensor) -> Tensor:
    """What ``pack`` was given, or some rows of it, as int32."""
    bits = fields(high.unflatten(-1, (-1, 2, _PIECE // _CODES_OF_WORD)), 8, 2)
    bits = bits.unflatten(-1, (_PIECE // _CODES_OF_WORD, _CODES_OF_WORD // 2))
    upper = bits.movedim(-3, -1).flatten(-4)
    return (fields(low, 8, 4) | upper << 4) - _MIDDLE


def values(low: Tensor, high: Tensor, scale: Tensor, step: Tensor) -> Tensor:
    """What a weight stands for, or some rows of one.

    Args:
        low: ``[..., k / 2]``, from ``pack``.
        high: ``[..., k / 4]``, likewise.
        scale: ``[..., k / 16]``, int8.
        step: ``[..., k / 256]``, float16.

    Returns:
        ``[..., k]`` of float32.
    """
    scales = scale.float().unflatten(-1, (-1, STEP_DEPTH // GROUP)) * step.float()[..., None]
    groups = unpack(low, high).float().unflatten(-1, (-1, GROUP))
    return (groups * scales.flatten(-2)[..., None]).flatten(-2)
