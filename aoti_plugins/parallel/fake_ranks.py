"""Exporting for each rank in one process, without GPUs, networks or other processes."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch.export import ExportedProgram

from aoti_plugins.errors import LoweringError
from aoti_plugins.parallel.merging import merge_ranks
from aoti_plugins.parallel.rewriting import rewrite_collectives


@contextlib.contextmanager
def as_rank(rank: int, world_size: int) -> Iterator[None]:
    """Within the block, ``torch.distributed`` says that this process is one of several.

    Its collectives do nothing (PyTorch's fake process group), which is enough to export.

    Args:
        rank: from 0.
        world_size: how many ranks there are.

    Raises:
        LoweringError: ``torch.distributed`` is initialized already, or not there.
    """
    import torch.distributed as dist

    if not dist.is_available():
        raise LoweringError("this PyTorch has no torch.distributed")
    if dist.is_initialized():
        raise LoweringError(
            "torch.distributed is initialized already; export for ranks before that, or after "
            "torch.distributed.destroy_process_group()"
        )
    from torch.testing._internal.distributed.fake_pg import FakeStore

    hook = sys.excepthook  # to which PyTorch adds the rank
    dist.init_process_group("fake", rank=rank, world_size=world_size, store=FakeStore())
    try:
        yield
    finally:
        dist.destroy_process_group()
        sys.excepthook = hook


def export_ranks(
    make: Callable[[int], ExportedProgram | Mapping[str, ExportedProgram]], world_size: int
) -> Any:
    """Export a program for several ranks.

    Args:
        make: gets a rank and exports its program, or its methods by name. While it runs,
            ``torch.distributed`` says that this process is that rank; ``init_device_mesh``,
            ``parallelize_module`` and functional collectives work; nothing is sent, so
            ``parallelize_module`` and ``distribute_tensor`` need ``src_data_rank=None``, which
            takes each rank's part from the whole weights that it has.
        world_size: how many ranks there are.

    Returns:
        One program for all ranks, or the methods by name: see ``merge_ranks``.

    Raises:
        LoweringError: two ranks compute something else, or a group of ranks is not the dim of a
            mesh.

    Example:
        >>> def make(rank):                                            # doctest: +SKIP
        ...     mesh = init_device_mesh("cpu", (2,))
        ...     model = parallelize_module(Model().eval(), mesh, plan, src_data_rank=None)
        ...     return parallel.export_dtensors(model, (x,))
        >>> program = parallel.export_ranks(make, 2)                   # doctest: +SKIP
        >>> edge = to_edge_transform_and_lower(                        # doctest: +SKIP
        ...     program, partitioner=[CpuPartitioner(external_data="model")])
    """
    if world_size < 1:
        raise LoweringError(f"the number of ranks is 1 or more; found {world_size}")
    programs = []
    for rank in range(world_size):
        with as_rank(rank, world_size):
            made = make(rank)
            for program in made.values() if isinstance(made, Mapping) else (made,):
                rewrite_collectives(program)
        programs.append(made)
    return merge_ranks(programs)
