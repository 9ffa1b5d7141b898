"""Make fake tensors of a GPU on a machine that has none.

A fake tensor on ``cuda`` otherwise initialises the device when it is made, and its method ``copy_``
asks for a guard of the device that a CPU build of PyTorch does not have; the op behind it does not.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from unittest import mock

import torch

from aoti_plugins.lowering.inductor.patching import patch


@patch(
    "torch._subclasses.fake_tensor.init_gpu_context(device)",
    "torch._subclasses.fake_tensor.FakeTensorMode.avoid_device_init",
    "torch.Tensor.copy_",
    why="A fake tensor on a GPU initialises the device.",
    until="FakeTensorMode has an argument for it",
)
def no_device_init() -> Iterator[None]:
    """Leave the device alone when a fake tensor on it is made."""
    from torch._subclasses import fake_tensor

    copy = torch.Tensor.copy_

    def copy_(self: torch.Tensor, src: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
        if not isinstance(self, fake_tensor.FakeTensor):
            return copy(self, src, non_blocking)
        return torch.ops.aten.copy_.default(self, src, non_blocking)

    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(fake_tensor, "init_gpu_context", return_value=None))
        stack.enter_context(
            mock.patch.object(
                fake_tensor.FakeTensorMode, "avoid_device_init", property(lambda self: True)
            )
        )
        stack.enter_context(mock.patch.object(torch.Tensor, "copy_", copy_))
        yield
