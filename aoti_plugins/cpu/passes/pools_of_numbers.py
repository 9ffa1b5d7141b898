"""The maximum over windows of numbers of 8 bits is that of the numbers."""

from __future__ import annotations

import math
import operator
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from aoti_plugins.cpu.passes.numbers import DEQUANTIZE, QUANTIZE, is_between, step_of
from aoti_plugins.lowering.small_weights.sources import arguments_of

_aten = torch.ops.aten
_MOST_ELEMENTS = 25  # of a window: beyond, code calls a kernel, which there is for floats only


def pools_of_numbers(program: ExportedProgram) -> None:
    """Take ``dequantize`` and ``quantize`` from around ``max_pool2d``; expects ATen ops.

    In place, in the outermost graph, where both have the same scale and zero: then what is rounded
    is one of the numbers.
    """
    for rounded in list(program.graph.nodes):
        pool = _pool(rounded)
        if pool is not None:
            _replace(rounded, pool)
    program.graph.eliminate_dead_code()


def _pool(rounded: Node) -> Node | None:
    """The node whose maxima another rounds to the numbers that they come from."""
    if not is_between(rounded, QUANTIZE):
        return None
    node: Any = rounded.args[0]
    if node.target is operator.getitem and node.args[1] == 0:
        node = node.args[0]
        if node.target is not _aten.max_pool2d_with_indices.default:
            return None
    elif node.target is not _aten.max_pool2d.default:
        return None
    window = node.args[1]
    if any(isinstance(one, Node) for one in window):
        return None
    elements = math.prod(window) if len(window) > 1 else window[0] ** 2
    x = node.args[0]
    is_same = is_between(x, DEQUANTIZE) and step_of(x) == step_of(rounded)
    return node if is_same and elements <= _MOST_ELEMENTS else None


def _replace(rounded: Node, pool: Node) -> None:
    graph = rounded.graph
    numbers = arguments_of(pool.args[0])["input"]
    with graph.inserting_before(rounded):
        found = graph.call_function(pool.target, (numbers, *pool.args[1:]), dict(pool.kwargs))
        found.meta.update(pool.meta)
        if pool.target is _aten.max_pool2d_with_indices.default:
            found.meta["val"] = (rounded.meta["val"], pool.meta["val"][1])
            found = graph.call_function(operator.getitem, (found, 0))
    found.meta = dict(rounded.meta)
    rounded.replace_all_uses_with(found)
