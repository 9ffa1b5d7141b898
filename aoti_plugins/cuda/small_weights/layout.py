"""How the CUDA runtime wants weights of 4 and 8 bits; must match native/src/cuda/kernels/."""

from __future__ import annotations

import torch
from torch import Tensor

from aoti_plugins.lowering.small_weights.fields import halves_of_bytes
from aoti_plugins.lowering.small_weights.weight import SmallWeight

ROWS = 8
"""Rows of a tile: the number of rows of a weight is a multiple of it."""

DEPTH = {4: 128, 8: 64}
"""Weights of a row in a tile, by bits."""

FLOAT, FLOAT_E5M2 = 3, 4
"""What codes are that are floats, beside kinds of zeros: E2M1 of 4 bits, E4M3 of 8, or E5M2."""

FLOAT_GROUPS = {4: 16, 8: 32}
"""Weights of a row that have a scale of one byte, by bits: E4M3, powers of two."""

_SMALLEST_GROUP = 32
_PART = 32
_LANES_OF_ROW = 4
_CODES_OF_LANE = 8
_CODES_AT_ONCE = 2**24

# Of eight codes in a row: first those in the lower halves of words.
_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def is_supported(weight: SmallWeight) -> bool:
    """Whether the kernels take the sizes of a weight."""
    (n, k), group = weight.codes.shape, weight.group_size
    is_power = group >= _SMALLEST_GROUP and group & (group - 1) == 0
    return n % ROWS == 0 and k % 8 == 0 and k > 0 and n > 0 and (group == k or is_power)


def pack_codes(codes: Tensor, bits: int) -> Tensor:
    """Lay out a weight in tiles, of which a lane of a warp reads 16 bytes.

    Args:
        codes: ``[n, k]``, uint8 from 0 to 15 for 4 bits, int8 for 8 bits; ``n`` is a multiple of 8.
        bits: 4 or 8.

    Returns:
        ``[n / 8, k / depth, 512]`` of uint8, ``k`` filled up to a multiple of the depth.
    """
    n, k = codes.shape
    packed = codes.new_empty((n // ROWS, -(-k // DEPTH[bits]), 512), dtype=torch.uint8)
    tiles = max(1, _CODES_AT_ONCE // (ROWS * k))
    for part, rows in zip(packed.split(tiles), codes.split(tiles * ROWS), strict=True):
        part.copy_(_tiles(rows, bits))
    return packed


def _tiles(codes: Tensor, bits: int) -> Tensor:
    depth = DEPTH[bits]
    filled = torch.nn.functional.pad(codes, (0, -codes.size(1) % depth))
    sizes = (-1, ROWS, filled.size(1) // depth, depth // _PART, _LANES_OF_ROW, _CODES_OF_LANE)
    tiles = filled.view(sizes).permute(0, 2, 1, 4, 3, 5)
    if bits == 4:
        tiles = tiles[..., _ORDER]
        tiles = tiles[..., 0::2] | tiles[..., 1::2] << 4
    return tiles.contiguous().view(torch.uint8).flatten(2)


def unpack_codes(packed: Tensor, bits: int, k: int) -> Tensor:
    """What ``pack_codes`` was given.

    Args:
        packed: ``[n / 8, k / depth, 512]``.
        bits: 4 or 8.
        k: weights of a row.
    """
    tiles, outer, _ = packed.shape
    if bits == 4:
        packed = torch.stack((packed & 15, packed >> 4), -1).flatten(2)
    else:
        packed = packed.view(torch.int8)
    parts = DEPTH[bits] // _PART
    split = packed.view(tiles, outer, ROWS, _LANES_OF_ROW, parts, _CODES_OF_LANE)
    if bits == 4:
        split = split[..., [_ORDER.index(i) for i in range(_CODES_OF_LANE)]]
    return split.permute(0, 2, 1, 4, 3, 5).reshape(tiles * ROWS, -1)[:, :k]


def pack_groups(values: Tensor) -> Tensor:
    """Lay out scales or zeros: ``[n, groups]`` becomes ``[n / 8, groups, 8]``."""
    return values.unflatten(0, (-1, ROWS)).transpose(1, 2).contiguous()


def unpack_groups(packed: Tensor) -> Tensor:
    """What ``pack_groups`` was given."""
    return packed.transpose(1, 2).flatten(0, 1)


def codes_of_rows(packed: Tensor, rows: Tensor, bits: int, k: int) -> Tensor:
    """Some rows of what ``pack_codes`` was given.

    Plain indexing of bytes, so that code which is generated of it reads these rows alone.

    Args:
        packed: ``[n / 8, k / depth, 512]``.
        rows: which, integers in any shape.
        bits: 4 or 8.
        k: weights of a row.

    Returns:
        ``[*rows, k]`` of int32; from 0 to 15 for 4 bits.
    """
    parts = DEPTH[bits] // _PART
    by_row = packed.unflatten(2, (ROWS, _LANES_OF_ROW, -1)).transpose(1, 2)
    lanes = by_row[_tile_and_row(rows)]  # [*rows, outer, lane, 16]
    if bits == 8:
        codes = lanes.view(torch.int8).to(torch.int32).unflatten(-1, (parts, _CODES_OF_LANE))
    else:
        # Of eight codes in four bytes: the even ones, in two bytes, then the odd ones.
        halves = halves_of_bytes(lanes).movedim(-2, -1).unflatten(-2, (parts, 2, 2))
        codes = halves.movedim(-3, -1).flatten(-3)
    return codes.transpose(-3, -2).flatten(-4)[..., :k]


def groups_of_rows(packed: Tensor, rows: Tensor) -> Tensor:
    """Some rows of what ``pack_groups`` was given: ``[*rows, groups]``."""
    return packed.transpose(1, 2)[_tile_and_row(rows)]


def _tile_and_row(rows: Tensor) -> tuple[Tensor, Tensor]:
    """In which tile a row is, and which of it; a tile is out of range where the row is."""
    return rows >> ROWS.bit_length() - 1, rows & ROWS - 1
