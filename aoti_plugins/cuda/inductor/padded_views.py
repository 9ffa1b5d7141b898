"""Views read their buffer with the strides that it gets.

Inductor pads the strides of large buffers where the node that it is at does not mind. It looks at
that when it makes a view, and again when it decides the layout of the buffer, at another node: the
view can then have other strides than the buffer, and results are wrong (torch 2.11; 2.13 never pads
what it has made a view of). Inside the block, the layout of a buffer that would be padded is
decided when the first view is made of it. Patched:
``torch._inductor.ir.is_contiguous_storage_and_layout``, which 2.11 asks for each view.
"""

from __future__ import annotations

from typing import Any

from aoti_plugins.lowering.inductor.patching import replacement


@replacement(
    "torch._inductor.ir.is_contiguous_storage_and_layout(x)",
    "torch._inductor.ir.as_storage_and_layout("
    "x, freeze, want_contiguous, stride_order, allow_padding, exact_strides)",
    why="PyTorch 2.11 reads views of padded buffers with other strides.",
    until="PyTorch 2.11 and 2.12 are supported no more",
)
def padded_views(original: Any, x: Any) -> Any:
    """Views of padded buffers have the strides of these buffers."""
    from torch._inductor import ir

    found = original(x)
    if not found and ir.is_storage_and_layout(x):
        ir.as_storage_and_layout(x, freeze=True)
    return found
