"""Matrices as blocks of GGUF files: valid, and not the best ones that there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def quantised(rows: Array, kind: str) -> Array:
    """``[n, k]`` floats become ``[n, nbytes]``, of ``"Q4_K"``, ``"Q5_K"`` or ``"Q6_K"``."""
    blocks = rows.astype(np.float32).reshape(-1, 256)
    return _WRITERS[kind](blocks).reshape(len(rows), -1)


def _of_5_bits(blocks: Array, most: int) -> Array:
    """Groups of 32, codes from 0 to ``most``."""
    groups = blocks.reshape(-1, 8, 32)
    low = np.maximum(-groups.min(2), 0)
    first, scales = _of_6_bits((groups.max(2) + low).clip(1e-6) / most)
    second, minima = _of_6_bits(low)
    step = first.astype(np.float32) * scales
    offset = second.astype(np.float32) * minima
    codes = ((groups + offset[..., None]) / np.maximum(step, 1e-9)[..., None]).round()
    codes = codes.clip(0, most).astype(np.uint8)
    high = (codes >> 4 << np.arange(8, dtype=np.uint8)[:, None]).sum(1).astype(np.uint8)
    pairs = codes.reshape(-1, 4, 2, 32) & 15
    low_bits = (pairs[:, :, 0] | pairs[:, :, 1] << 4).reshape(-1, 128)
    parts = [first.view(np.uint8), second.view(np.uint8), _packed(scales, minima)]
    return np.concatenate([*parts, *([high] if most == 31 else []), low_bits], 1)


def _of_6_bits(numbers: Array) -> tuple[Array, Array]:
    """One float16 for eight numbers, and what each is in its terms, 0 to 63."""
    scale = (numbers.max(1, keepdims=True) / 63).clip(1e-6).astype(np.float16)
    return scale, (numbers / scale.astype(np.float32)).round().clip(0, 63).astype(np.uint8)


def _packed(scales: Array, minima: Array) -> Array:
    """16 numbers of 6 bits in 12 bytes."""
    one = scales[:, :4] | scales[:, 4:] >> 4 << 6
    two = minima[:, :4] | minima[:, 4:] >> 4 << 6
    return np.concatenate([one, two, scales[:, 4:] & 15 | (minima[:, 4:] & 15) << 4], 1)


def _with_signs(blocks: Array) -> Array:
    """Groups of 16, codes from -32 to 31."""
    groups = blocks.reshape(-1, 16, 16)
    wanted = abs(groups).max(2).clip(1e-6) / 31
    scale = (wanted.max(1, keepdims=True) / 127).clip(1e-6).astype(np.float16)
    steps = (wanted / scale.astype(np.float32)).round().clip(1, 127).astype(np.int8)
    codes = (groups / (scale.astype(np.float32) * steps)[..., None]).round().clip(-32, 31)
    quarters = (codes + 32).astype(np.uint8).reshape(-1, 2, 4, 32)
    low = quarters[:, :, :2] & 15 | (quarters[:, :, 2:] & 15) << 4
    shifts = np.arange(0, 8, 2, dtype=np.uint8)[:, None]
    high = (quarters >> 4 << shifts).sum(2).astype(np.uint8)
    parts = [low.reshape(-1, 128), high.reshape(-1, 64), steps.view(np.uint8)]
    return np.concatenate([*parts, scale.view(np.uint8)], 1)


_WRITERS: dict[str, Callable[[Array], Array]] = {
    "Q4_K": lambda blocks: _of_5_bits(blocks, 15),
    "Q5_K": lambda blocks: _of_5_bits(blocks, 31),
    "Q6_K": _with_signs,
}
