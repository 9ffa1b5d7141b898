"""Store the weights of convolutions channels last where Inductor wants them so.

Where Inductor decides for that layout, it converts images and weights, the weights too in every
call of the program, with a kernel for each. Here a weight becomes a constant in that layout; its
values follow when the constants are written (``capture.py``). Patched:
``GraphLowering.add_tensor_constant``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import Node

from aoti_plugins.lowering.inductor.gpu.placement import Placement
from aoti_plugins.lowering.inductor.patching import patch, replaced

_convolution = torch.ops.aten.convolution.default


@patch(
    "torch._inductor.graph.GraphLowering.add_tensor_constant(self, data, name)",
    why="Weights of convolutions would be converted in every call.",
    until="Inductor converts them without freezing",
)
def channels_last_weights(placement: Placement) -> Iterator[None]:
    """Convert the fakes of weights that nothing but two-dimensional convolutions read.

    Args:
        placement: knows the values behind the fakes.
    """
    from torch._inductor.graph import GraphLowering

    def add(original: Any, self: Any, data: torch.Tensor, name: str | None = None) -> Any:
        if self.layout_opt and _is_weight(getattr(self, "current_node", None)):
            data = placement.in_layout(data, torch.channels_last)
        return original(self, data, name)

    with replaced(GraphLowering, "add_tensor_constant", add):
        yield


def _is_weight(node: Any) -> bool:
    """Whether it is ``[out, in / groups, height, width]``, and only convolutions read it."""
    if not isinstance(node, Node) or node.op != "get_attr":
        return False
    value = node.meta.get("val")
    is_image = isinstance(value, torch.Tensor) and value.dim() == 4
    return is_image and all(_reads_as_weight(user, node) for user in node.users)


def _reads_as_weight(user: Node, weight: Node) -> bool:
    if user.target is not _convolution or user.args[6]:  # transposed
        return False
    return user.args[1] is weight and weight not in (user.args[0], user.args[2])
