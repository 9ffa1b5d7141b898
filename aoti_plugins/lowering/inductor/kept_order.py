"""Kernels keep their place around a write to a buffer, also after their loops were looked at again.

A buffer that is written to in place has another name from there on, and the order of kernels is
made of names. Where Inductor computes anew what a kernel reads, as its loops change, it forgets the
new names: the kernel could be moved in front of the write, and read what was there before. 2.11
also forgets what a kernel that writes has to wait for: those that read the buffer before, and the
one that makes it.
"""

from __future__ import annotations

from typing import Any

from torch.utils._ordered_set import OrderedSet

from aoti_plugins.lowering.inductor.patching import replacement


@replacement(
    "torch._inductor.scheduler.SchedulerNode.recompute_size_and_body(self)",
    "torch._inductor.scheduler.BaseSchedulerNode.update_mutated_names(self, renames)",
    "torch._inductor.dependencies.StarDep",
    "torch._inductor.dependencies.WeakDep",
    why="A kernel may run on the other side of one that writes what it reads: wrong, silently.",
    until="recompute_size_and_body renames what is read in any case, and keeps what is waited for",
)
def kept_order(original: Any, self: Any, *args: Any, **kwargs: Any) -> None:
    """Names of buffers that were written to, and what writes wait for, are kept."""
    from torch._inductor.dependencies import StarDep, WeakDep

    reads = self.read_writes.reads
    waits_for = OrderedSet(dep for dep in reads if isinstance(dep, WeakDep | StarDep))
    original(self, *args, **kwargs)
    if waits_for or self.mutation_renames:
        kept = self.read_writes.with_read(waits_for)
        self.set_read_writes(kept.rename(self.mutation_renames))
