"""Give kernels of Fourier transforms row-major inputs.

Inductor calls what has complex results as it is. It may lay out the real tensors before that as it
likes, and leaves out a copy whose only end is another layout; the strides of the result it takes
from what PyTorch says of the kernel, which for transforms differs from device to device. With
row-major inputs all agree. Complex tensors it cannot copy, so the real ones that they are views of
are made row-major, too.
"""

from __future__ import annotations

from typing import Any

import torch

from aoti_plugins.lowering.inductor.patching import replacement

_TRANSFORMS = (torch.ops.aten._fft_c2c.default, torch.ops.aten._fft_r2c.default)
_VIEW = torch.ops.aten.view.dtype


@replacement(
    "torch._inductor.graph.fallback_handler(kernel, add_to_fallback_set)",
    "torch._inductor.ir.ExternKernel.require_contiguous",
    why="Transforms get strides that devices disagree on.",
    until="Inductor keeps to a graph's strides for what it does not generate",
)
def row_major_transforms(original: Any, kernel: Any, *options: Any, **named: Any) -> Any:
    """Inputs of transforms, and real tensors that are viewed as complex, are row-major."""
    from torch._inductor.ir import ExternKernel

    handler = original(kernel, *options, **named)

    def on_row_major(x: Any, *args: Any, **kwargs: Any) -> Any:
        is_real = not x.get_dtype().is_complex
        if (is_real and kernel is _VIEW) or kernel in _TRANSFORMS:
            x = ExternKernel.require_contiguous(x)
        return handler(x, *args, **kwargs)

    return on_row_major if kernel is _VIEW or kernel in _TRANSFORMS else handler
