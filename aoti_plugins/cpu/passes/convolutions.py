"""Convolutions in a graph of ATen ops, and what the runtime's kernels want of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from aoti_plugins.lowering.program_constants import add_constant, constant_of

_aten = torch.ops.aten
_CONVOLUTIONS = (_aten.conv1d.default, _aten.conv2d.default, _aten.conv3d.default)


class Limits(NamedTuple):
    """What a result is kept between; none for no limit."""

    least: float | None
    most: float | None


NO_LIMITS = Limits(None, None)


def is_convolution(node: Node) -> bool:
    """Whether a node convolves, not transposed: dim 0 of the weight is the result's channels."""
    if node.target is _aten.convolution.default:
        return node.args[6] is False
    return node.target in _CONVOLUTIONS


def bias_of(convolution: Node) -> Node | None:
    """What a convolution, or a linear layer, adds to each channel."""
    return convolution.args[2] if len(convolution.args) > 2 else convolution.kwargs.get("bias")


def places_of(convolution: Node) -> tuple[list[int], list[int], list[int], int] | None:
    """Stride, padding and dilation over two dims, and groups; none where padding is a word."""
    if convolution.target is _aten.convolution.default:
        stride, padding, dilation, _, _, groups = convolution.args[3:9]
    else:
        names = ("stride", "padding", "dilation", "groups")
        given = dict(zip(names, convolution.args[3:], strict=False)) | dict(convolution.kwargs)
        stride, padding, dilation, groups = (
            given.get(name, default) for name, default in zip(names, (1, 0, 1, 1), strict=True)
        )
    if isinstance(padding, str):
        return None
    return _pair(stride), _pair(padding), _pair(dilation), groups


def _pair(value: Any) -> list[int]:
    values = [value] if isinstance(value, int) else list(value)
    return values * 2 if len(values) == 1 else values


def limits_of(node: Node) -> Limits | None:
    """What a node keeps its only argument between, if that is all it does."""
    if node.target is _aten.relu.default:
        return Limits(0.0, None)
    if node.target in (_aten.hardtanh.default, _aten.clamp.default, _aten.relu6.default):
        defaults = {_aten.hardtanh.default: (-1.0, 1.0), _aten.relu6.default: (0.0, 6.0)}
        limits = list(defaults.get(node.target, (None, None)))
        limits[: len(node.args) - 1] = node.args[1:]
        if node.kwargs or any(isinstance(one, Node) for one in limits):
            return None
        return Limits(*(None if one is None else float(one) for one in limits))
    return None


def channels_last_constant(program: ExportedProgram, node: Node) -> Node:
    """A constant of four dims, or one more that is channels-last."""
    weight = constant_of(program, node)
    assert weight is not None
    if weight.is_contiguous(memory_format=torch.channels_last):
        return node
    laid_out = weight.detach().contiguous(memory_format=torch.channels_last)
    return add_constant(program, f"{node.name}_channels_last", laid_out)


def channels_last_input(x: Node) -> Node:
    """What the program is given, copied by generated code, which is faster than the runtime."""
    if x.op != "placeholder":
        return x
    layout = {"memory_format": torch.channels_last}
    clone = x.graph.call_function(_aten.clone.default, (x,), layout)
    clone.meta.update(x.meta)
    clone.meta["val"] = x.meta["val"].contiguous(**layout)
    return clone
