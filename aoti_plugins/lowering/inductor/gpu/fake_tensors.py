"""Make fake tensors of a GPU on a machine that has none.

A fake tensor on ``cuda`` otherwise initialises the device when it is made. Some of its methods, of
which PyTorch's decompositions call ``copy_`` and ``__invert__``, ask for a guard of the device that
a CPU build of PyTorch does not have; the ops behind them do not.
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
    "torch.Tensor.__invert__",
    why="A fake tensor on a GPU initialises the device.",
    until="FakeTensorMode has an argument for it",
)
def no_device_init() -> Iterator[None]:
    """Leave the device alone when a fake tensor on it is made."""
    from torch._subclasses import fake_tensor

    copy = torch.Tensor.copy_
    invert = torch.Tensor.__invert__

    def copy_(self: torch.Tensor, src: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
        if not isinstance(self, fake_tensor.FakeTensor):
            return copy(self, src, non_blocking)
        return torch.ops.aten.copy_.default(self, src, non_blocking)

    def __invert__(self: torch.Tensor) -> torch.Tensor:  # noqa: N807
        if not isinstance(self, fake_tensor.FakeTensor):
            return invert(self)
        return torch.ops.aten.bitwise_not.default(self)

    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(fake_tensor, "init_gpu_context", return_value=None))
        stack.enter_context(
            mock.patch.object(
                fake_tensor.FakeTensorMode, "avoid_device_init", property(lambda self: True)
            )
        )
        stack.enter_context(mock.patch.object(torch.Tensor, "copy_", copy_))
        stack.enter_context(mock.patch.object(torch.Tensor, "__invert__", __invert__))
        yield
