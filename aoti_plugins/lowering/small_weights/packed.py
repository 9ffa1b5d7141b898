"""Weights of 4 and 8 bits as programs hold them where no kernel wants a layout of its own.

The operator ``aoti_plugins::packed_weight`` makes floats of them. It takes a weight or some rows of
one alike, in plain PyTorch, so that Inductor generates it for every device.
"""

from __future__ import annotations

import torch
from torch import Tensor

from aoti_plugins.lowering.small_weights.fields import halves_of_bytes
from aoti_plugins.lowering.small_weights.weight import MIDDLE, ZERO_POINT, SmallWeight


def is_packable(weight: SmallWeight) -> bool:
    """Whether a weight can be held so: two codes of 4 bits in a byte are of one group."""
    return weight.bits == 8 or weight.group_size % 2 == 0


def pack(codes: Tensor, bits: int, group_size: int) -> Tensor:
    """Put the two halves of each group of codes into the same bytes; codes of 8 bits stay.

    So what lies next to each other in memory are neighbours, whichever half is read.

    Args:
        codes: ``[n, k]``, uint8 from 0 to 15 for 4 bits, int8 for 8 bits.
        bits: 4 or 8.
        group_size: codes of a row that have one scale.

    Returns:
        ``[n, k / 2]`` of uint8, the first halves in the lower bits; ``codes`` for 8 bits.
    """
    if bits == 8:
        return codes
    first, second = codes.unflatten(-1, (-1, 2, group_size // 2)).unbind(-2)
    return (first | second << 4).flatten(-2)


def values(
    codes: Tensor,
    scale: Tensor,
    zero: Tensor | None,
    bits: int,
    zero_kind: int,
    dtype: torch.dtype,
) -> Tensor:
    """What the operator computes, in float32.

    Args:
        codes: ``[..., k / 2]`` or ``[..., k]``, from ``pack``.
        scale: ``[..., groups]``.
        zero: likewise; none for ``NO_ZERO``.
        bits: 4 or 8.
        zero_kind: ``NO_ZERO``, ``ZERO_POINT`` or ``ADDED_ZERO`` of ``small_weights.weight``.
        dtype: of the result.

    Returns:
        ``[..., k]``.
    """
    groups = codes.unflatten(-1, (scale.size(-1), -1))
    numbers = (halves_of_bytes(groups).flatten(-2) if bits == 4 else groups).float()
    return scaled(numbers, scale, zero, bits, zero_kind).flatten(-2).to(dtype)


def scaled(
    numbers: Tensor, scale: Tensor, zero: Tensor | None, bits: int, zero_kind: int
) -> Tensor:
    """What codes ``[..., groups, size]`` of float32 stand for, as ``values`` has the others."""
    scales = scale.float()[..., None]
    zeros = None if zero is None else zero.float()[..., None]
    if zeros is not None and zero_kind == ZERO_POINT:
        return (numbers - zeros) * scales
    found = (numbers - MIDDLE[bits] if MIDDLE[bits] else numbers) * scales
    return found if zeros is None else found + zeros


@torch.library.custom_op("aoti_plugins::packed_weight", mutates_args=())
def packed_weight(
    codes: Tensor,
    scale: Tensor,
    zero: Tensor | None,
    bits: int,
    zero_kind: int,
    dtype: torch.dtype,
) -> Tensor:
    """``values``, as one op."""
    return values(codes, scale, zero, bits, zero_kind, dtype)


@packed_weight.register_fake
def _(codes, scale, zero, bits, zero_kind, dtype):  # type: ignore[no-untyped-def]
    del scale, zero, zero_kind
    return codes.new_empty((*codes.shape[:-1], codes.size(-1) * 8 // bits), dtype=dtype)
