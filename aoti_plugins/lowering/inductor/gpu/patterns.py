"""Set Inductor's pattern matcher up without a GPU.

The patterns (attention, padded products, …) are traced once per process, on whatever device there
seems to be; without a real one, tracing on a GPU fails and would leave the setup half done. They
are device independent, so they are traced on the CPU.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from aoti_plugins.lowering.inductor.patching import patch


@patch(
    "torch._inductor.fx_passes.fuse_attention._sfdp_init(input_device)",
    "torch._inductor.fx_passes.misc_patterns._misc_patterns_init(input_device)",
    "torch._inductor.fx_passes.pad_mm._pad_mm_init(input_device)",
    why="Inductor's patterns would be traced on a GPU that is not there.",
    until="patterns are traced without a device",
)
def patterns_on_cpu() -> Iterator[None]:
    """Trace the patterns on the CPU when they are set up inside the block."""
    from torch._inductor.fx_passes import fuse_attention, misc_patterns, pad_mm

    setups = (
        (fuse_attention, "_sfdp_init"),
        (misc_patterns, "_misc_patterns_init"),
        (pad_mm, "_pad_mm_init"),
    )
    with contextlib.ExitStack() as stack:
        for module, name in setups:
            replacement = _on_cpu(getattr(module, name))
            stack.enter_context(mock.patch.object(module, name, replacement))
        yield


def _on_cpu(setup: Callable[..., Any]) -> Callable[..., Any]:
    def set_up(input_device: torch.device | None = None) -> Any:
        del input_device
        with FakeTensorMode(), mock.patch.object(torch.cuda, "is_available", return_value=False):
            return setup(torch.device("cpu"))

    return set_up
