"""Convolutions over two dims become the op that XNNPACK's kernels compute, limits included."""

from __future__ import annotations

import torch
from torch.export import ExportedProgram
from torch.fx import Node

import aoti_plugins.cpu.clamped_convolution  # noqa: F401 -- registers the op
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
    return x.dim() == 4 and x.dtype == torch.float32 and places_of(node) is not None


def _replace(program: ExportedProgram, node: Node) -> None:
    last, limits = node, NO_LIMITS
    if len(node.users) == 1:
        (user,) = node.users
        found = limits_of(user)
        if found is not None:
            last, limits = user, found
    places = places_of(node)
    assert places is not None
    weight = channels_last_constant(program, node.args[1])
    with node.graph.inserting_before(node):
        x = channels_last_input(node.args[0])
        op = torch.ops.aoti_plugins.clamped_convolution.default
        product = node.graph.call_function(op, (x, weight, bias_of(node), *places, *limits))
    product.meta.update(last.meta)
    product.meta["val"] = last.meta["val"].contiguous(memory_format=torch.channels_last)
    last.replace_all_uses_with(product)
