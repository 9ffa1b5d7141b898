"""Contiguous copies on a GPU that is not there.

``x.contiguous()`` sets the current device before it copies, which a build of PyTorch without CUDA
or Metal cannot do, for fake tensors either. PyTorch calls it where it describes convolutions in one
dimension. Patched: ``torch.Tensor.contiguous``, for tensors on a GPU; the op is called by name.
"""

from __future__ import annotations

from typing import Any

import torch

from aoti_plugins.lowering.inductor.patching import replacement

_GPUS = ("cuda", "mps")


@replacement(
    "torch.Tensor.contiguous",
    why="A contiguous copy sets the current device, which is not there.",
    until="copying fake tensors leaves the device alone",
)
def contiguous_by_op(
    original: Any,
    self: torch.Tensor,
    *,
    memory_format: torch.memory_format = torch.contiguous_format,
) -> Any:
    """Copy without a current device."""
    copy = torch.ops.aten.contiguous.default if self.device.type in _GPUS else original
    return copy(self, memory_format=memory_format)
