"""The operator ``aoti_plugins::linear_all_reduce``, which the CUDA runtime has."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import linear

from aoti_plugins.lowering.runtime_ops import runtime_op
from aoti_plugins.parallel import ops


@runtime_op("aoti_plugins::linear_all_reduce", device_types=("cpu", "cuda"))
def linear_all_reduce(
    x: Tensor,
    weight: Tensor,
    residual: Tensor | None,
    reduction: int,
    world_size: int,
    group_size: int,
    stride: int,
) -> Tensor:
    """Product with the transpose of a weight, reduced over ranks, plus a residual.

    One operator, so that the runtime can send the first rows while it computes the others, and add
    the residual where it reduces.

    Args:
        x: ``[..., k]``, float16 or bfloat16.
        weight: ``[n, k]``, this rank's, the dtype of ``x``.
        residual: as the result.
        reduction: a ``parallel.ops.Reduction``.
        world_size: how many ranks there are.
        group_size: how many are in a group.
        stride: from one rank of a group to the next.

    Returns:
        ``[..., n]`` in the dtype of ``x``, row-major, the same on all ranks of the group.
    """
    found = ops.all_reduce(linear(x, weight), reduction, world_size, group_size, stride)
    return found if residual is None else found + residual


@linear_all_reduce.register_fake
def _(x, weight, *others):  # type: ignore[no-untyped-def]
    del others
    return x.new_empty((*x.shape[:-1], weight.size(0)))
