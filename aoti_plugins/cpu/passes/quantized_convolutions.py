"""Convolutions and linear layers between numbers of 8 bits become one op on these numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Node

import aoti_plugins.cpu.quantized_convolution  # noqa: F401 -- registers the op
from aoti_plugins.cpu.passes.convolutions import (
    NO_LIMITS,
    Limits,
    bias_of,
    is_convolution,
    limits_of,
    places_of,
)
from aoti_plugins.cpu.passes.numbers import (
    DEQUANTIZE,
    DEQUANTIZE_CHANNELS,
    QUANTIZE,
    is_between,
    step_of,
)
from aoti_plugins.lowering.program_constants import add_constant, constant_of
from aoti_plugins.lowering.small_weights.sources import arguments_of, name_of

_aten = torch.ops.aten


class _Weight(NamedTuple):
    """Numbers ``[out, ...]`` of 8 bits, and what each channel's stand for."""

    numbers: Tensor
    scale: Tensor


class _Layer(NamedTuple):
    """A convolution or a linear layer, with what stands around it."""

    node: Node
    x: Node
    weight: _Weight
    limits: Limits


def quantized_convolutions(program: ExportedProgram) -> None:
    """Replace them by ``aoti_plugins::quantized_convolution``, in place; expects ATen ops.

    As PT2E has them, in the outermost graph: of a tensor of int8 with one scale, with a constant
    weight of int8 that is symmetric, the result rounded to int8 at once or behind a ``relu``,
    ``hardtanh`` or ``clamp``.
    """
    for node in list(program.graph.nodes):
        layer = _layer(program, node)
        if layer is not None:
            _replace(program, node, layer)
    program.graph.eliminate_dead_code()


def _layer(program: ExportedProgram, rounded: Node) -> _Layer | None:
    """What a node rounds, if the kernels compute it from numbers of 8 bits."""
    if not is_between(rounded, QUANTIZE):
        return None
    node = rounded.args[0]
    limits = limits_of(node)
    if limits is not None and len(node.users) == 1:
        node = node.args[0]
    is_taken = is_convolution(node) or node.target is _aten.linear.default
    if not is_taken or len(node.users) != 1 or node.meta["val"].dtype != torch.float32:
        return None
    x, weight, bias = node.args[0], _weight(program, node.args[1]), bias_of(node)
    if weight is None or not is_between(x, DEQUANTIZE):
        return None
    if bias is not None and constant_of(program, bias) is None:
        return None
    if is_convolution(node):
        known = weight.numbers.dim() == 4 and x.meta["val"].dim() == 4
        if not known or places_of(node) is None:
            return None
    elif weight.numbers.dim() != 2 or len(_unknown(x.meta["val"].shape[:-1])) > 1:
        return None
    return _Layer(node, x, weight, limits or NO_LIMITS)


def _weight(program: ExportedProgram, node: Any) -> _Weight | None:
    """The weight that a node makes floats of, if it is a constant and its zeros are 0."""
    if name_of(node) not in (DEQUANTIZE, DEQUANTIZE_CHANNELS):
        return None
    given = arguments_of(node)
    numbers = constant_of(program, given["input"])
    if numbers is None or numbers.dtype != torch.int8:
        return None
    if name_of(node) == DEQUANTIZE:
        if isinstance(given["scale"], Node) or given["zero_point"] != 0:
            return None
        return _Weight(numbers, torch.full((len(numbers),), float(given["scale"])))
    scale = constant_of(program, given["scales"])
    zeros = None
    if given["zero_points"] is not None:
        zeros = constant_of(program, given["zero_points"])
        if zeros is None or bool(zeros.any()):
            return None
    if scale is None or given["axis"] != 0:
        return None
    return _Weight(numbers, scale.detach().to(torch.float32))


def _unknown(sizes: Any) -> list[int]:
    """The places of sizes that are known in a call only."""
    return [place for place, size in enumerate(sizes) if not isinstance(size, int)]


def _replace(program: ExportedProgram, rounded: Node, layer: _Layer) -> None:
    graph, node, numbers = rounded.graph, layer.node, layer.weight.numbers
    is_linear = not is_convolution(node)
    if is_linear:
        numbers = numbers[:, :, None, None]
    name = f"{node.name}_quantized"
    laid_out = numbers.detach().contiguous(memory_format=torch.channels_last)
    weight = add_constant(program, f"{name}_weight", laid_out)
    scale = add_constant(program, f"{name}_scale", layer.weight.scale)
    places = ([1, 1], [0, 0], [1, 1], 1) if is_linear else places_of(node)
    assert places is not None
    with graph.inserting_before(rounded):
        x = arguments_of(layer.x)["input"]
        if is_linear:
            x = _reshaped(x, [-1, numbers.size(1), 1, 1])
        found = graph.call_function(
            torch.ops.aoti_plugins.quantized_convolution.default,
            (
                x,
                weight,
                scale,
                bias_of(node),
                *places,
                *step_of(layer.x),
                *step_of(rounded),
                *layer.limits,
            ),
        )
        value = rounded.meta["val"]
        if is_linear:
            found.meta["val"] = value.reshape(-1, numbers.size(0), 1, 1)
            sizes = [size if isinstance(size, int) else -1 for size in value.shape]
            found = _reshaped(found, sizes)
        else:
            found.meta["val"] = value.contiguous(memory_format=torch.channels_last)
    found.meta = {**rounded.meta, "val": found.meta["val"]}
    rounded.replace_all_uses_with(found)


def _reshaped(node: Node, sizes: list[int]) -> Node:
    found = node.graph.call_function(_aten.reshape.default, (node, sizes))
    found.meta.update(node.meta)
    found.meta["val"] = node.meta["val"].reshape(sizes)
    return found
