"""Blocks of 256 weights as GGUF files have them, for llama.cpp's ``q4_k``, ``q5_k`` and ``q6_k``.

They are ``[..., blocks * nbytes]`` of uint8. Everything here is plain PyTorch: it reads constants
when a program is lowered, and becomes part of programs that hold such blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from aoti_plugins.lowering.small_weights.fields import halves_of_bytes

BLOCK = 256
NBYTES = {"q4_k": 144, "q5_k": 176, "q6_k": 210}
"""Bytes of a block, by type."""


@dataclass(frozen=True)
class Groups:
    """Weights ``codes * scale - minimum``.

    Attributes:
        codes: ``[..., groups, size]`` of int32; from 0 to 15 for ``q4_k``, to 31 for ``q5_k``, from
            -32 to 31 for ``q6_k``. Groups have 32 weights, those of ``q6_k`` 16.
        scale: ``[..., groups]`` of float32.
        minimum: likewise; ``q6_k`` has none.
    """

    codes: Tensor
    scale: Tensor
    minimum: Tensor | None

    def values(self) -> Tensor:
        """The weights ``[..., groups * size]`` in float32."""
        found = self.codes.float() * self.scale[..., None]
        return (found if self.minimum is None else found - self.minimum[..., None]).flatten(-2)


def read(rows: Tensor, kind: str) -> Groups:
    """The groups of rows of blocks.

    Args:
        rows: ``[..., blocks * nbytes]`` of uint8.
        kind: ``"q4_k"``, ``"q5_k"`` or ``"q6_k"``.
    """
    blocks = rows.unflatten(-1, (-1, NBYTES[kind])).to(torch.int32)
    found = _of_6_bits(blocks) if kind == "q6_k" else _of_5_bits(blocks, kind == "q5_k")
    minimum = found.minimum
    return Groups(
        found.codes.flatten(-3, -2),  # groups of a block, of all blocks of a row
        found.scale.flatten(-2),
        None if minimum is None else minimum.flatten(-2),
    )


class SixBits(NamedTuple):
    """Weights ``codes * scale * step`` of ``q6_k``, as the blocks have these.

    Attributes:
        codes: ``[..., k]`` of int32, from -32 to 31.
        scale: ``[..., k / 16]`` of int32, from -128 to 127.
        step: ``[..., k / 256]`` of float32, float16 in the file.
    """

    codes: Tensor
    scale: Tensor
    step: Tensor


def six_bits(rows: Tensor) -> SixBits:
    """What is in rows of blocks of ``q6_k``, ``[..., blocks * nbytes]`` of uint8."""
    found = _fields_of_6_bits(rows.unflatten(-1, (-1, NBYTES["q6_k"])).to(torch.int32))
    return SixBits(found.codes.flatten(-2), found.scale.flatten(-2), found.step.flatten(-2))


def _of_5_bits(blocks: Tensor, has_fifth: bool) -> Groups:
    """Two floats, 8 scales and 8 minima of 6 bits in 12 bytes, perhaps fifth bits, four bits."""
    packed = blocks[..., 4:16].unflatten(-1, (3, 4))
    first, second, third = packed.unbind(-2)
    scales = torch.cat((first & 63, third & 15 | first >> 6 << 4), -1)
    minima = torch.cat((second & 63, third >> 4 | second >> 6 << 4), -1)
    codes = halves_of_bytes(blocks[..., -128:].unflatten(-1, (4, 32))).flatten(-3, -2)
    if has_fifth:
        shifts = torch.arange(8, dtype=torch.int32, device=blocks.device)[:, None]
        codes = codes | (blocks[..., None, 16:48] >> shifts & 1) << 4
    return Groups(codes, scales * _float16(blocks[..., 0:2]), minima * _float16(blocks[..., 2:4]))


def _of_6_bits(blocks: Tensor) -> Groups:
    codes, scale, step = _fields_of_6_bits(blocks)
    return Groups(codes.unflatten(-1, (16, 16)), scale * step, None)


def _fields_of_6_bits(blocks: Tensor) -> SixBits:
    """Four bits, two bits, 16 signed scales of 8 bits, a float; of each block."""
    low = halves_of_bytes(blocks[..., :128].unflatten(-1, (2, 64))).unflatten(-1, (2, 32))
    shifts = torch.arange(0, 8, 2, dtype=torch.int32, device=blocks.device)[:, None]
    high = blocks[..., 128:192].unflatten(-1, (2, 1, 32)) >> shifts & 3
    codes = (low.flatten(-3, -2) | high << 4) - 32
    scale = (blocks[..., 192:208] ^ 128) - 128
    return SixBits(codes.flatten(-3), scale, _float16(blocks[..., 208:210]))


def _float16(two: Tensor) -> Tensor:
    """What two bytes ``[..., 2]`` are as a float16, ``[..., 1]`` of float32."""
    word = two[..., :1] | two[..., 1:] << 8
    return word.to(torch.int16).view(torch.float16).float()
