"""ExecuTorch's embeddings of 2, 4 and 8 bits: ``quantized_decomposed::embedding_*``.

The rows that are asked for become floats, and no others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding

_SHIFTS = {2: (0, 8, 2), 4: (4, -1, -4)}
"""Where the codes of a byte are, in order, by bits: a range."""


def _embedding(bits: int) -> Callable[..., Tensor]:
    def rows(
        weight: Tensor,
        scales: Tensor,
        zero_points: Tensor | None,
        quant_min: int,
        quant_max: int,
        indices: Tensor,
        *,
        dtype: torch.dtype | None = None,
    ) -> Tensor:
        del quant_min, quant_max
        codes = embedding(indices, weight).to(torch.int32)
        if bits < 8:
            shifts = torch.arange(*_SHIFTS[bits], dtype=torch.int32, device=weight.device)
            codes = codes[..., None] >> shifts & (1 << bits) - 1
            codes = codes.flatten(-2) - (1 << bits - 1)
        scale = _by_row(scales, indices).float()[..., None]
        groups = codes.unflatten(-1, (scale.size(-2), -1)).float()
        if zero_points is not None:
            groups = groups - _by_row(zero_points, indices).float()[..., None]
        # ExecuTorch multiplies in the dtype of the scales.
        return (groups * scale).flatten(-2).to(scales.dtype).to(dtype or scales.dtype)

    return rows


def _by_row(values: Tensor, indices: Tensor) -> Tensor:
    """Scales or zeros ``[n]`` or ``[n, groups]`` of some rows: ``[*indices, groups]``."""
    return embedding(indices, values if values.dim() == 2 else values[:, None])


_OF_BITS: dict[str, Callable[..., Any]] = {
    "embedding_2bit": _embedding(2),
    "embedding_4bit": _embedding(4),
    "embedding_byte": _embedding(8),
}

OF_EXECUTORCH: dict[str, Callable[..., Any]] = {
    f"{name}{overload}": how for name, how in _OF_BITS.items() for overload in ("", ".dtype")
}
"""By name and overload: they are there only if somebody imported what defines them."""
