"""Contiguous copies on a GPU that is not there.

``x.contiguous()`` sets the current device before it copies, which a build of PyTorch without CUDA
or Metal cannot do, for fake tensors either. PyTorch calls it where it describes convolutions in one
dimension. Patched: ``torch.Tensor.contiguous``, for tensors on a GPU; the op is called by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from unittest import mock

import torch

from aoti_plugins.lowering.inductor.patching import patch

_GPUS = ("cuda", "mps")


@patch(
    "torch.Tensor.contiguous",
    why="A contiguous copy sets the current device, which is not there.",
    until="copying fake tensors leaves the device alone",
)
def contiguous_by_op() -> Iterator[None]:
    """Copy without a current device."""
    original = torch.Tensor.contiguous

    def contiguous(
        self: torch.Tensor, *, memory_format: torch.memory_format = torch.contiguous_format
    ) -> torch.Tensor:
        if self.device.type not in _GPUS:
            return original(self, memory_format=memory_format)
        found: torch.Tensor = torch.ops.aten.contiguous.default(self, memory_format=memory_format)
        return found

    with mock.patch.object(torch.Tensor, "contiguous", contiguous):
        yield
