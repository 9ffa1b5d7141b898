"""A kernel reads what was written to a buffer before it, also after its loops were looked at again.

A buffer that is written to in place has another name from there on, and the order of kernels is
made of names. Where Inductor computes anew what a kernel reads, as its loops change, it forgets the
new names: the kernel could be moved in front of the write, and read what was there before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest import mock

from aoti_plugins.lowering.inductor.patching import patch


@patch(
    "torch._inductor.scheduler.SchedulerNode.recompute_size_and_body(self)",
    "torch._inductor.scheduler.BaseSchedulerNode.update_mutated_names(self, renames)",
    why="A kernel may run before one that writes what it reads, which is wrong, silently.",
    until="recompute_size_and_body renames what is read in any case",
)
def kept_renames() -> Iterator[None]:
    """Names of buffers that were written to are not forgotten."""
    from torch._inductor.scheduler import SchedulerNode

    original = SchedulerNode.recompute_size_and_body

    def computed_anew(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if self.mutation_renames:
            self.set_read_writes(self.read_writes.rename(self.mutation_renames))

    with mock.patch.object(SchedulerNode, "recompute_size_and_body", computed_anew):
        yield
