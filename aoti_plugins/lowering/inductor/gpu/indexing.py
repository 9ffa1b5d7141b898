"""Index tensors on a GPU that is not there.

``x[...]`` sets the current device before it looks at the index, which a build of PyTorch without
CUDA or Metal cannot do, for fake tensors either. PyTorch's decompositions index that way. Patched:
``torch.Tensor.__getitem__``, for tensors on a GPU; the same ops are called by name.
"""

from __future__ import annotations

from typing import Any

import torch

from aoti_plugins.lowering.inductor.patching import replacement

_aten = torch.ops.aten
_GPUS = ("cuda", "mps")


@replacement(
    "torch.Tensor.__getitem__",
    why="Indexing sets the current device, which is not there.",
    until="indexing of fake tensors leaves the device alone",
)
def indexing_by_ops(original: Any, self: torch.Tensor, index: Any) -> Any:
    """Index without a current device."""
    items = index if isinstance(index, tuple) else (index,)
    ellipses = sum(item is Ellipsis for item in items)
    if self.device.type not in _GPUS or ellipses > 1 or not all(map(_is_known, items)):
        return original(self, index)
    return indexed(self, items)


def _is_known(item: Any) -> bool:
    if isinstance(item, torch.Tensor):
        return item.dim() > 0 and item.dtype != torch.uint8  # PyTorch reads one without dimensions
    if isinstance(item, bool):
        return False
    return item is None or item is Ellipsis or isinstance(item, int | torch.SymInt | slice)


def indexed(tensor: torch.Tensor, items: tuple[Any, ...]) -> Any:
    """What ``tensor[items]`` is, by ops; items are numbers, slices, tensors, None, one ellipsis."""
    result = tensor
    tensors: list[torch.Tensor | None] = []  # by dimension of the result, masks in one place
    dim = 0
    for item in items:
        if item is Ellipsis:
            skipped = tensor.dim() - sum(map(_dims_taken, items))
            tensors += [None] * skipped
            dim += skipped
        elif item is None:
            result = _aten.unsqueeze(result, dim)
            tensors.append(None)
            dim += 1
        elif isinstance(item, slice):
            result = _aten.slice(result, dim, item.start, item.stop, item.step or 1)
            tensors.append(None)
            dim += 1
        elif isinstance(item, torch.Tensor):
            tensors.append(item)
            dim += _dims_taken(item)
        else:
            result = _aten.select(result, dim, item)
    if any(one is not None for one in tensors):
        return _aten.index(result, tensors)
    return result if result is not tensor else _aten.alias(tensor)


def _dims_taken(item: Any) -> int:
    if item is None or item is Ellipsis:
        return 0
    return item.dim() if isinstance(item, torch.Tensor) and item.dtype == torch.bool else 1
