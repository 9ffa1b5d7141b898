"""Which ranks a collective is among, as a program can say it for all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aoti_plugins.errors import LoweringError


@dataclass(frozen=True)
class Group:
    """Ranks that differ only in one dim of a mesh, whichever rank asks.

    Rank ``r`` is in the group of the ranks ``first + i * stride`` for ``i`` from 0 to ``size - 1``,
    at the place ``r // stride % size``. All ranks are ``Group(n, n, 1)``; of a mesh ``[2, 4]`` the
    first dim is ``Group(8, 2, 4)``, the second one ``Group(8, 4, 1)``.

    Attributes:
        world_size: how many ranks there are.
        size: how many are in a group.
        stride: from one rank of a group to the next.
    """

    world_size: int
    size: int
    stride: int

    def __post_init__(self) -> None:
        if min(self.world_size, self.size, self.stride) < 1:
            raise LoweringError(f"sizes and strides of groups are 1 or more; found {self}")
        if self.world_size % (self.size * self.stride):
            raise LoweringError(
                f"groups of {self.size} ranks with a stride of {self.stride} do not divide "
                f"{self.world_size} ranks"
            )

    def place(self, rank: int) -> int:
        """Where a rank is in its group."""
        return rank // self.stride % self.size

    def ranks(self, rank: int) -> list[int]:
        """The ranks of the group that a rank is in, in order."""
        first = rank - self.place(rank) * self.stride
        return [first + i * self.stride for i in range(self.size)]

    def arguments(self) -> tuple[int, int, int]:
        """As ops take it: number of ranks, size, stride."""
        return self.world_size, self.size, self.stride


def group_of_ranks(ranks: Sequence[int], rank: int, world_size: int) -> Group:
    """The group that some ranks are one of.

    Args:
        ranks: of the group, in order.
        rank: one of them.
        world_size: how many ranks there are.

    Raises:
        LoweringError: no dim of a mesh has such groups, so that one program cannot be for all
            ranks.
    """
    stride = ranks[1] - ranks[0] if len(ranks) > 1 else 1
    try:
        found = Group(world_size, len(ranks), stride)
    except LoweringError:
        found = None
    if found is None or found.ranks(rank) != list(ranks):
        raise LoweringError(
            f"a collective is among the ranks {list(ranks)} of {world_size}; one program for all "
            "ranks can hold groups that are the dims of a mesh: ranks at equal distances which, "
            "together with the groups of the other ranks, are all of them"
        )
    return found


def group_of_name(name: Any) -> Group:
    """The group of a functional collective of this process.

    Args:
        name: the group's name in ``torch.distributed``, or the process group.

    Raises:
        LoweringError: there is no such group now, or one program cannot be for all its ranks.
    """
    import torch.distributed as dist

    if not dist.is_available() or not dist.is_initialized():
        raise LoweringError(
            f"a collective is among the process group {name!r}, and torch.distributed is not "
            "initialized now: lower where the program was exported, or export it with "
            "aoti_plugins.parallel.export_ranks, which writes the ranks into the program"
        )
    try:
        found = (
            dist.distributed_c10d._resolve_process_group(name) if isinstance(name, str) else name
        )
        ranks = dist.get_process_group_ranks(found)
    except (RuntimeError, ValueError, KeyError) as error:
        raise LoweringError(
            f"a collective is among the process group {name!r}, which is not there now: {error}"
        ) from error
    return group_of_ranks(ranks, dist.get_rank(), dist.get_world_size())
