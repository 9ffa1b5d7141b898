"""Convolutions in a graph of ATen ops."""

from __future__ import annotations

import torch
from torch.fx import Node

_aten = torch.ops.aten
_CONVOLUTIONS = (_aten.conv1d.default, _aten.conv2d.default, _aten.conv3d.default)


def is_convolution(node: Node) -> bool:
    """Whether a node convolves, not transposed: dim 0 of the weight is the result's channels."""
    if node.target is _aten.convolution.default:
        return node.args[6] is False
    return node.target in _CONVOLUTIONS


def bias_of(convolution: Node) -> Node | None:
    """What a convolution adds to each channel."""
    return convolution.args[2] if len(convolution.args) > 2 else convolution.kwargs.get("bias")
