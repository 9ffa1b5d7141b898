"""The collectives of programs, and what differs from rank to rank, as operators.

The runtimes have kernels for the collectives. Called in PyTorch, they use its process groups.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import torch
from torch import Tensor

from aoti_plugins.parallel.groups import Group

RANK_VARIABLE = "RANK"


class Reduction(IntEnum):
    """How elements of the ranks become one; must match native/src/ranks/collectives.h."""

    SUM = 0
    AVERAGE = 1
    MINIMUM = 2
    MAXIMUM = 3
    PRODUCT = 4


NAMES = ("sum", "avg", "min", "max", "product")
"""PyTorch's, by reduction."""

_DEVICES = ("cpu", "cuda")
_groups: dict[tuple[int, Group], str] = {}


def current_rank() -> int:
    """This process's rank: PyTorch's, or else what the environment says; 0 without either."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank()
    return int(os.environ.get(RANK_VARIABLE, "0"))


@torch.library.custom_op("aoti_plugins::of_rank", mutates_args=(), device_types=_DEVICES)
def of_rank(stacked: Tensor) -> Tensor:
    """The part of a constant that is this rank's.

    Args:
        stacked: ``[world_size, ...]``, the constant of each rank.

    Returns:
        ``[...]``, the same dtype.
    """
    return stacked[current_rank()].clone()


@of_rank.register_fake
def _(stacked):  # type: ignore[no-untyped-def]
    return stacked.new_empty(stacked.shape[1:])


@torch.library.custom_op("aoti_plugins::all_reduce", mutates_args=(), device_types=_DEVICES)
def all_reduce(x: Tensor, reduction: int, world_size: int, group_size: int, stride: int) -> Tensor:
    """What the elements of all ranks of a group come to.

    Args:
        x: equal sizes and dtypes on all ranks.
        reduction: a ``Reduction``. Sums are in the order of ranks on the CPU.
        world_size: how many ranks there are.
        group_size: how many are in a group; see ``groups.Group``.
        stride: from one rank of a group to the next.

    Returns:
        Sizes and dtype of ``x``, row-major.
    """
    how = NAMES[Reduction(reduction)]
    return _among(Group(world_size, group_size, stride), "all_reduce", x, how)


@torch.library.custom_op("aoti_plugins::all_gather", mutates_args=(), device_types=_DEVICES)
def all_gather(x: Tensor, world_size: int, group_size: int, stride: int) -> Tensor:
    """The tensors of all ranks of a group, one behind the other.

    Args:
        x: ``[n, ...]``, equal sizes and dtypes on all ranks.
        world_size: how many ranks there are.
        group_size: how many are in a group.
        stride: from one rank of a group to the next.

    Returns:
        ``[group_size * n, ...]``, in the order of ranks.
    """
    group = Group(world_size, group_size, stride)
    return _among(group, "all_gather_into_tensor", x, group_size)


@all_gather.register_fake
def _(x, world_size, group_size, stride):  # type: ignore[no-untyped-def]
    del world_size, stride
    return x.new_empty((x.shape[0] * group_size, *x.shape[1:]))


@torch.library.custom_op("aoti_plugins::reduce_scatter", mutates_args=(), device_types=_DEVICES)
def reduce_scatter(
    x: Tensor, reduction: int, world_size: int, group_size: int, stride: int
) -> Tensor:
    """This rank's part of what the elements of all ranks of a group come to.

    Args:
        x: ``[group_size * n, ...]``, equal sizes and dtypes on all ranks.
        reduction: a ``Reduction``.
        world_size: how many ranks there are.
        group_size: how many are in a group.
        stride: from one rank of a group to the next.

    Returns:
        ``[n, ...]``.
    """
    group, how = Group(world_size, group_size, stride), NAMES[Reduction(reduction)]
    return _among(group, "reduce_scatter_tensor", x, how, group_size)


@reduce_scatter.register_fake
def _(x, reduction, world_size, group_size, stride):  # type: ignore[no-untyped-def]
    del reduction, world_size, stride
    return x.new_empty((x.shape[0] // group_size, *x.shape[1:]))


@torch.library.custom_op("aoti_plugins::all_to_all", mutates_args=(), device_types=_DEVICES)
def all_to_all(
    x: Tensor,
    output_splits: Sequence[int],
    input_splits: Sequence[int],
    world_size: int,
    group_size: int,
    stride: int,
) -> Tensor:
    """Rows for each rank of a group against rows of each.

    Args:
        x: ``[sum(input_splits), ...]``.
        output_splits: how many rows come from each rank, ``group_size`` numbers.
        input_splits: how many go to each.
        world_size: how many ranks there are.
        group_size: how many are in a group.
        stride: from one rank of a group to the next.

    Returns:
        ``[sum(output_splits), ...]``, in the order of ranks.
    """
    group = Group(world_size, group_size, stride)
    return _among(group, "all_to_all_single", x, list(output_splits), list(input_splits))


@all_to_all.register_fake
def _(x, output_splits, input_splits, world_size, group_size, stride):  # type: ignore[no-untyped-def]
    del input_splits, world_size, group_size, stride
    return x.new_empty((sum(output_splits), *x.shape[1:]))


@torch.library.custom_op("aoti_plugins::broadcast", mutates_args=(), device_types=_DEVICES)
def broadcast(x: Tensor, source: int, world_size: int, group_size: int, stride: int) -> Tensor:
    """One rank's tensor, on all ranks of a group.

    Args:
        x: equal sizes and dtypes on all ranks.
        source: whose elements count: its place in the group.
        world_size: how many ranks there are.
        group_size: how many are in a group.
        stride: from one rank of a group to the next.

    Returns:
        Sizes and dtype of ``x``, row-major.
    """
    return _among(Group(world_size, group_size, stride), "broadcast", x, source)


@all_reduce.register_fake
@broadcast.register_fake
def _(x: Tensor, *_: int) -> Tensor:
    return x.new_empty(x.shape)


COLLECTIVES = frozenset(
    getattr(torch.ops.aoti_plugins, name).default
    for name in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")
)


def _among(group: Group, name: str, x: Tensor, *arguments: Any) -> Tensor:
    """What a functional collective of PyTorch gives, among the ranks of a group."""
    c10d = torch.ops._c10d_functional
    return c10d.wait_tensor(getattr(c10d, name)(x.contiguous(), *arguments, _name_of(group)))


def _name_of(group: Group) -> str:
    """The name of PyTorch's process group of the same ranks.

    Raises:
        RuntimeError: there is none.
    """
    import torch.distributed as dist

    if not dist.is_available() or not dist.is_initialized():
        raise RuntimeError(
            f"a collective among {group.size} of {group.world_size} ranks: in PyTorch it needs "
            "torch.distributed.init_process_group(); lowered programs do not"
        )
    if dist.get_world_size() != group.world_size:
        raise RuntimeError(
            f"a collective of {group.world_size} ranks, and PyTorch's processes are "
            f"{dist.get_world_size()}"
        )
    if group.size == group.world_size:
        return str(dist.group.WORLD.group_name)
    key = id(dist.group.WORLD), group
    if key not in _groups:
        firsts = [r for r in range(group.world_size) if group.place(r) == 0]
        made = [dist.new_group(group.ranks(first)) for first in firsts]
        own = firsts.index(group.ranks(dist.get_rank())[0])
        _groups[key] = str(made[own].group_name)
    return _groups[key]
