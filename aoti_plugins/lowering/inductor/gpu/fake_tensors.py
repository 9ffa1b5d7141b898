"""Make fake tensors of a GPU on a machine that has none.

A fake tensor on ``cuda`` otherwise initialises the device when it is made. Some of its methods, of
which PyTorch's decompositions call ``copy_`` and ``__invert__``, ask for a guard of the device that
a CPU build of PyTorch does not have; the ops behind them do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch

from aoti_plugins.lowering.inductor.patching import patch, replaced


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

    def by_op(op: Any) -> Any:
        def call(original: Any, self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            is_fake = isinstance(self, fake_tensor.FakeTensor)
            return (op if is_fake else original)(self, *args, **kwargs)

        return call

    avoids = property(lambda self: True)
    with (
        mock.patch.object(fake_tensor, "init_gpu_context", return_value=None),
        mock.patch.object(fake_tensor.FakeTensorMode, "avoid_device_init", avoids),
        replaced(torch.Tensor, "copy_", by_op(torch.ops.aten.copy_.default)),
        replaced(torch.Tensor, "__invert__", by_op(torch.ops.aten.bitwise_not.default)),
    ):
        yield
