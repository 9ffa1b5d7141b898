"""The operator ``aoti_plugins::reduce_bags``, which Inductor sees as its kernels."""

from __future__ import annotations

import torch
from torch.library import triton_op

from aoti_plugins.cuda.triton_kernels import wrapped
from aoti_plugins.lowering.decompositions.embedding_bag import Bags, Reduced, reduced
from aoti_plugins.lowering.decompositions.windows import accumulation_dtype

_TILE = 1024
"""Elements of sums that a program loads at a time."""

_LEAST_COLUMNS, _MOST_COLUMNS = 32, 256
_WARPS_OF_MAXIMA = 2


@triton_op("aoti_plugins::reduce_bags", mutates_args=())
def reduce_bags(
    weight: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor,
    count: int,
    stops: bool,
    factors: torch.Tensor | None,
    padding_idx: int,
    is_max: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sums or maxima over bags of rows.

    Args:
        weight: ``[rows, width]``, float16, bfloat16, float32 or float64, any strides.
        indices: ``[n]``, int32 or int64, rows of ``weight``; others are left out.
        offsets: ``[bags]`` or ``[bags + 1]``, the dtype of the indices: where each bag starts.
        count: how many bags there are.
        stops: whether the last bag ends where ``offsets`` says; else it takes all that is left.
        factors: ``[n]``, of the rows of a sum.
        padding_idx: rows of this index do not count; negative for none.
        is_max: maxima rather than sums.

    Returns:
        ``[bags, width]``, sums in float32 or float64, maxima in the dtype of ``weight``, 0 for
        empty bags; ``[bags, width]``, the indices that maxima are from, or nothing for sums.
    """
    return by_kernels(Bags(weight, indices, offsets, count, stops, factors, padding_idx, is_max))


@reduce_bags.register_fake
def _(*arguments):  # type: ignore[no-untyped-def]
    return _results(Bags(*arguments))


@reduce_bags.register_kernel("cpu")
def _(*arguments):  # type: ignore[no-untyped-def]
    """Without the kernels, for a program that is run before its tensors move to a GPU."""
    return reduced(Bags(*arguments))


def by_kernels(bags: Bags) -> Reduced:
    """Reduce on the GPU, or into a graph that is traced."""
    from aoti_plugins.cuda.embedding_bags import kernels

    values, chosen = _results(bags)
    rows, width = bags.weight.shape
    columns = _LEAST_COLUMNS
    while columns < _MOST_COLUMNS and columns < width:
        columns *= 2
    grid = (bags.count, (width + columns - 1) // columns)
    sizes = (rows, width, bags.indices.size(0), bags.count)
    steps = (*bags.weight.stride(), bags.indices.stride(0), bags.offsets.stride(0))
    constants = {
        "STOPS": int(bags.stops),
        "PADDING": bags.padding_idx,
        "WIDE": kernels.tl.float64 if values.dtype == torch.float64 else kernels.tl.float32,
        "COLUMNS": columns,
    }
    tensors = (bags.weight, bags.indices, bags.offsets)
    if bags.is_max:
        wrapped(kernels.max_bags)[grid](
            *tensors, values, chosen, *sizes, *steps, **constants, num_warps=_WARPS_OF_MAXIMA
        )
        return values, chosen
    factors = bags.factors
    wrapped(kernels.sum_bags)[grid](
        *tensors,
        bags.weight if factors is None else factors,
        values,
        *sizes,
        *steps,
        0 if factors is None else factors.stride(0),
        **constants,
        FACTORS=factors is not None,
        ROWS=_TILE // columns,
        num_warps=1,
    )
    return values, chosen


def _results(bags: Bags) -> Reduced:
    weight, indices = bags.weight, bags.indices
    shape = (bags.count, weight.size(1))
    dtype = weight.dtype if bags.is_max else accumulation_dtype(weight.dtype)
    # Not new_empty, which for constants gives what a traced kernel does not take.
    values = torch.empty(shape, dtype=dtype, device=weight.device)
    chosen_shape = shape if bags.is_max else (0,)
    return values, torch.empty(chosen_shape, dtype=indices.dtype, device=weight.device)
