"""What convolutions read is written channels-last.

The runtime's convolutions take any strides, and copy what is not channels-last. Inductor chooses
the strides of what it computes by those of what that reads, and takes the first order it thinks of
where these say nothing, as for sizes of 1. Inside the block it is told what the convolution wants,
where the choice is still open.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest import mock

from aoti_plugins.lowering.inductor.patching import patch

_DIMS = 4
_CHANNELS_LAST = [3, 0, 2, 1]  # the place of each dim, counted from the innermost


@patch(
    "torch._inductor.lowering.lowerings",
    "torch._inductor.lowering.fallback_handler(kernel, add_to_fallback_set)",
    "torch._inductor.ir.FlexibleLayout",
    why="Convolutions copy each image that is not channels-last at every call.",
    until="Inductor looks at who reads a buffer when it decides its strides",
)
def channels_last_inputs() -> Iterator[None]:
    """Convolutions of the runtime find their images as they want them."""
    import torch
    from torch._inductor.lowering import fallback_handler, lowerings

    import aoti_plugins.cpu.ended_convolutions
    import aoti_plugins.cpu.quantized_convolution  # noqa: F401 -- registers the op

    def lowered(op: Any) -> Any:
        call = fallback_handler(op, add_to_fallback_set=False)
        return lambda x, *others: call(_channels_last(x), *others)

    ops = torch.ops.aoti_plugins
    convolutions = (
        ops.clamped_convolution.default,
        ops.activated_convolution.default,
        ops.quantized_convolution.default,
    )
    with mock.patch.dict(lowerings, {op: lowered(op) for op in convolutions}):
        yield


def _channels_last(x: Any) -> Any:
    from torch._inductor.ir import FlexibleLayout

    x.realize()
    if len(x.get_size()) == _DIMS and isinstance(x.get_layout(), FlexibleLayout):
        x.freeze_layout_with_stride_order(_CHANNELS_LAST)
    return x
