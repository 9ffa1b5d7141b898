"""Additions to one place happen once for each element.

A kernel has more threads than elements; a mask keeps the others out. PyTorch 2.11 and 2.12 drop the
mask of an atomic addition whose place and value are the same for all elements, as they are where
``x.index_add(0, index, y)`` adds to a single row: the threads beyond the last element add, too.
Patched: ``TritonKernel.store``, which there asks for the mask of the whole block. Not needed from
PyTorch 2.13 on, whose ``indexing`` has an argument for it.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from aoti_plugins.lowering.inductor.patching import replaced, replacement


@replacement(
    "torch._inductor.codegen.triton.TritonKernel.store(self, name, index, value, mode)",
    "torch._inductor.codegen.triton.TritonKernel.indexing("
    "self, index, copy_shape, dense_indexing, override_mask, block_ptr)",
    "torch._inductor.codegen.triton.IndexingOptions",
    why="PyTorch 2.11 and 2.12 drop the mask of an addition to a single place.",
    until="PyTorch 2.12 is supported no more",
    before=(2, 13),
)
def masked_atomics(
    original: Any, self: Any, name: str, index: Any, value: Any, mode: Any = None
) -> None:
    """Atomic additions are masked, whatever they add and where."""
    from torch._inductor.codegen.triton import IndexingOptions

    def masked(indexing: Any, *args: Any, **kwargs: Any) -> Any:
        found = indexing(*args, **kwargs)
        if not isinstance(found, IndexingOptions):
            return found
        block = [f"{tree.prefix}mask" for tree in self.range_trees if _is_masked(self, tree)]
        return dataclasses.replace(found, mask_vars=found.mask_vars | block)

    if mode != "atomic_add":
        original(self, name, index, value, mode)
        return
    with replaced(self, "indexing", masked):
        original(self, name, index, value, mode)


def _is_masked(kernel: Any, tree: Any) -> bool:
    return not tree.is_reduction and not kernel._has_constant_mask(tree)
