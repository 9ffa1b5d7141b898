"""The operator ``aoti_plugins::rows_of_tiles``: an embedding out of the tiles of a product."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch._ops import OpOverload

from aoti_plugins.cuda.small_weights.layout import codes_of_rows, groups_of_rows
from aoti_plugins.lowering.decompositions.index_dim import without_negatives
from aoti_plugins.lowering.small_weights.packed import scaled


def _values(
    rows: Tensor,
    weight: Tensor,
    scale: Tensor,
    zero: Tensor | None,
    bits: int,
    group_size: int,
    zero_kind: int,
    k: int,
    dtype: torch.dtype,
    may_be_negative: bool,
) -> Tensor:
    """Rows of a weight, computed in float32 and in plain PyTorch, of which code is generated.

    Args:
        rows: which rows of the weight, integers in any shape.
        weight: ``[n / 8, k / depth, 512]`` of uint8, from ``layout.pack_codes``.
        scale: ``[n / 8, groups, 8]``, from ``layout.pack_groups``.
        zero: likewise; none for ``NO_ZERO``.
        bits: 4 or 8.
        group_size: weights of a row that have one scale.
        zero_kind: ``NO_ZERO``, ``ZERO_POINT`` or ``ADDED_ZERO`` of ``small_weights.weight``.
        k: weights of a row.
        dtype: of the result.
        may_be_negative: numbers below 0 count from the end; else they are out of range.

    Returns:
        ``[*rows, k]``.
    """
    rows = rows if may_be_negative else without_negatives(rows)
    numbers = codes_of_rows(weight, rows, bits, k).unflatten(-1, (-1, group_size)).float()
    scales = groups_of_rows(scale, rows)
    zeros = None if zero is None else groups_of_rows(zero, rows)
    return scaled(numbers, scales, zeros, bits, zero_kind).flatten(-2).to(dtype)


rows_of_tiles = torch.library.custom_op("aoti_plugins::rows_of_tiles", _values, mutates_args=())


@rows_of_tiles.register_fake
def _(  # type: ignore[no-untyped-def]
    rows, weight, scale, zero, bits, group_size, zero_kind, k, dtype, may_be_negative
):
    del scale, zero, bits, group_size, zero_kind, may_be_negative
    return weight.new_empty((*rows.shape, k), dtype=dtype)


DECOMPOSITIONS: Mapping[OpOverload, Callable[..., Tensor]] = {
    torch.ops.aoti_plugins.rows_of_tiles.default: _values
}
