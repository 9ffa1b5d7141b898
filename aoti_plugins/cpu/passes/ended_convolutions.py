"""Convolutions over two dims become ops that XNNPACK's kernels compute, with what ends them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from aoti_plugins.cpu.ended_convolutions import ACTIVATIONS
from aoti_plugins.cpu.passes.convolutions import (
    NO_LIMITS,
    bias_of,
    channels_last_constant,
    channels_last_input,
    is_convolution,
    limits_of,
    places_of,
)
from aoti_plugins.lowering.program_constants import constant_of

_ACTIVATION_NAMES = {op: name for name, op in ACTIVATIONS.items()}

# What puts numbers around an image, and the names of its arguments.
_PADS = {
    torch.ops.aten.constant_pad_nd.default: ("self", "pad", "value"),
    torch.ops.aten.pad.default: ("self", "pad", "mode", "value"),
}


def ended_convolutions(program: ExportedProgram) -> None:
    """Replace convolutions of float32 with constant weights, in place; expects ATen ops.

    In the outermost graph. A ``relu``, ``hardtanh``, ``clamp`` or activation that alone reads a
    result is made a part of it, and so are zeros around the image. Weights become channels-last,
    and what the program is given is copied so.
    """
    for node in list(program.graph.nodes):
        if is_convolution(node) and _is_taken(program, node):
            _replace(program, node)
    program.graph.eliminate_dead_code()


def _is_taken(program: ExportedProgram, node: Node) -> bool:
    weight, bias = constant_of(program, node.args[1]), bias_of(node)
    if weight is None or weight.dim() != 4 or weight.dtype != torch.float32:
        return False
    if bias is not None and constant_of(program, bias) is None:
        return False
    x = node.args[0].meta["val"]
    return x.dim() == 4 and x.dtype == torch.float32 and places_of(node) is not None


def _replace(program: ExportedProgram, node: Node) -> None:
    ops = torch.ops.aoti_plugins
    op, last = ops.clamped_convolution.default, node
    end: tuple[float | str | None, ...] = NO_LIMITS
    if len(node.users) == 1:
        (user,) = node.users
        limits = limits_of(user)
        if limits is not None:
            end, last = limits, user
        elif user.target in _ACTIVATION_NAMES:
            op, last = ops.activated_convolution.default, user
            end = (_ACTIVATION_NAMES[user.target],)
    places = places_of(node)
    assert places is not None
    stride, padding, dilation, groups = places
    weight = channels_last_constant(program, node.args[1])
    x, padding = _without_zeros(node.args[0], padding, weight.meta["val"].shape[2:], dilation)
    with node.graph.inserting_before(node):
        x = channels_last_input(x)
        given = (x, weight, bias_of(node), stride, padding, dilation, groups, *end)
        product = node.graph.call_function(op, given)
    product.meta.update(last.meta)
    product.meta["val"] = last.meta["val"].contiguous(memory_format=torch.channels_last)
    last.replace_all_uses_with(product)


def _without_zeros(
    x: Node, padding: list[int], kernel: Sequence[int], dilation: list[int]
) -> tuple[Node, list[int]]:
    """What zeros were put around, and the padding that stands for them.

    No more of them than the kernel reaches over: there it would see nothing but zeros.
    """
    names = _PADS.get(x.target)
    if names is None:
        return x, padding
    given = dict(zip(names, x.args, strict=False)) | x.kwargs
    zeros, is_constant = given["pad"], given.get("mode", "constant") == "constant"
    is_known = len(zeros) in (2, 4) and all(isinstance(one, int) for one in zeros)
    if not is_known or not is_constant or (given.get("value") or 0) != 0:
        return x, padding
    left, right, top, bottom = (*zeros, 0, 0)[:4]
    height, width = padding
    both = [height + top, width + left, height + bottom, width + right]
    reach = [(size - 1) * step for size, step in zip(kernel, dilation, strict=True)]
    if min(zeros) < 0 or any(one > most for one, most in zip(both, reach * 2, strict=True)):
        return x, padding
    return x.args[0], both
