"""Convolutions over two dims become the op that XNNPACK's kernels compute, limits included."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch.export import ExportedProgram
from torch.fx import Node

import aoti_plugins.cpu.clamped_convolution  # noqa: F401 -- registers the op
from aoti_plugins.cpu.passes.convolutions import bias_of, is_convolution
from aoti_plugins.lowering.program_constants import add_constant, constant_of

_aten = torch.ops.aten


class _Limits(NamedTuple):
    least: float | None
    most: float | None


def clamped_convolutions(program: ExportedProgram) -> None:
    """Replace convolutions of float32 with constant weights, in place; expects ATen ops.

    In the outermost graph. A ``relu``, ``hardtanh`` or ``clamp`` that alone reads a result is made
    a part of it. Weights become channels-last, and what the program is given is copied so.
    """
    for node in list(program.graph.nodes):
        if is_convolution(node) and _is_taken(program, node):
            _replace(program, node)
    program.graph.eliminate_dead_code()
    program.graph_module.recompile()


def _is_taken(program: ExportedProgram, node: Node) -> bool:
    weight, bias = constant_of(program, node.args[1]), bias_of(node)
    if weight is None or weight.dim() != 4 or weight.dtype != torch.float32:
        return False
    if bias is not None and constant_of(program, bias) is None:
        return False
    x = node.args[0].meta["val"]
    return x.dim() == 4 and x.dtype == torch.float32 and not isinstance(_sizes(node)[1], str)


def _sizes(node: Node) -> tuple[Any, Any, Any, Any]:
    """Stride, padding, dilation and groups of a convolution."""
    if node.target is _aten.convolution.default:
        return node.args[3], node.args[4], node.args[5], node.args[8]
    names = ("stride", "padding", "dilation", "groups")
    given = dict(zip(names, node.args[3:], strict=False)) | dict(node.kwargs)
    return (
        given.get("stride", 1),
        given.get("padding", 0),
        given.get("dilation", 1),
        given.get("groups", 1),
    )


def _pair(value: Any) -> list[int]:
    values = [value] if isinstance(value, int) else list(value)
    return values * 2 if len(values) == 1 else values


def _limits_of(node: Node) -> _Limits | None:
    """What a node keeps its only argument between, if that is all it does."""
    if node.target is _aten.relu.default:
        return _Limits(0.0, None)
    if node.target in (_aten.hardtanh.default, _aten.clamp.default, _aten.relu6.default):
        defaults = {_aten.hardtanh.default: (-1.0, 1.0), _aten.relu6.default: (0.0, 6.0)}
        limits = list(defaults.get(node.target, (None, None)))
        limits[: len(node.args) - 1] = node.args[1:]
        if node.kwargs or any(isinstance(one, Node) for one in limits):
            return None
        return _Limits(*(None if one is None else float(one) for one in limits))
    return None


def _replace(program: ExportedProgram, node: Node) -> None:
    last, limits = node, _Limits(None, None)
    if len(node.users) == 1:
        (user,) = node.users
        found = _limits_of(user)
        if found is not None:
            last, limits = user, found
    stride, padding, dilation, groups = _sizes(node)
    weight = _channels_last(program, node.args[1])
    with node.graph.inserting_before(node):
        x = node.args[0]
        if x.op == "placeholder":
            x = _aten_clone(x)
        op = torch.ops.aoti_plugins.clamped_convolution.default
        sizes = (_pair(stride), _pair(padding), _pair(dilation), groups)
        product = node.graph.call_function(op, (x, weight, bias_of(node), *sizes, *limits))
    product.meta.update(last.meta)
    product.meta["val"] = last.meta["val"].contiguous(memory_format=torch.channels_last)
    last.replace_all_uses_with(product)


def _aten_clone(x: Node) -> Node:
    """A channels-last copy, which generated code makes faster than the runtime."""
    format = {"memory_format": torch.channels_last}
    clone = x.graph.call_function(_aten.clone.default, (x,), format)
    clone.meta.update(x.meta)
    clone.meta["val"] = x.meta["val"].contiguous(**format)
    return clone


def _channels_last(program: ExportedProgram, node: Node) -> Node:
    weight = constant_of(program, node)
    assert weight is not None
    if weight.is_contiguous(memory_format=torch.channels_last):
        return node
    laid_out = weight.detach().contiguous(memory_format=torch.channels_last)
    return add_constant(program, f"{node.name}_channels_last", laid_out)
