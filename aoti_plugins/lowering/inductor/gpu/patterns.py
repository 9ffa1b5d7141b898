"""Set Inductor's pattern matcher up without a GPU.

The patterns (attention, padded products, …) are traced once per process, on whatever device there
seems to be; without a real one, tracing on a GPU fails and would leave the setup half done. They
are device independent, so they are traced on the CPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from aoti_plugins.lowering.inductor.patching import patch, replaced


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

    with (
        replaced(fuse_attention, "_sfdp_init", _on_cpu),
        replaced(misc_patterns, "_misc_patterns_init", _on_cpu),
        replaced(pad_mm, "_pad_mm_init", _on_cpu),
    ):
        yield


def _on_cpu(original: Any, input_device: torch.device | None = None) -> Any:
    del input_device
    with FakeTensorMode(), mock.patch.object(torch.cuda, "is_available", return_value=False):
        return original(torch.device("cpu"))
