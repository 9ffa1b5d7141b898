"""Several numbers in one, as tensors hold numbers of few bits."""

from __future__ import annotations

import torch
from torch import Tensor


def fields(words: Tensor, word_bits: int, bits: int) -> Tensor:
    """``[..., n]`` integers become ``[..., n * word_bits / bits]`` of int32, the lowest bits first.

    Args:
        words: integers.
        word_bits: how many bits of each are used, 8 to 32.
        bits: of a field.
    """
    shifts = torch.arange(0, word_bits, bits, dtype=torch.int32, device=words.device)
    split = words.to(torch.int32)[..., None] >> shifts & (1 << bits) - 1
    return split.flatten(-2)


def halves_of_bytes(numbers: Tensor) -> Tensor:
    """``[..., n]`` bytes become ``[..., 2, n]`` of int32: the lower halves, then the upper ones."""
    shifts = torch.arange(0, 8, 4, dtype=torch.int32, device=numbers.device)[:, None]
    return numbers.to(torch.int32)[..., None, :] >> shifts & 15
