"""What in a program is a product with a weight of 4 or 8 bits."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from aoti_plugins.lowering.small_weights.sources import (
    GgufBlocks,
    gguf_blocks_of,
    is_transpose,
    packed_weight_of,
    weight_of,
)
from aoti_plugins.lowering.small_weights.weight import SmallWeight

_aten = torch.ops.aten

Product = tuple[Node, SmallWeight, Node | None]
"""What is multiplied, the weight whose transpose it is multiplied with, and the bias."""


class Factors(NamedTuple):
    """A product ``x @ weight.t() + bias``.

    Attributes:
        x: ``[..., k]``.
        weight: ``[n, k]``.
        bias: ``[n]``, or none.
    """

    x: Node
    weight: Node
    bias: Node | None


def factors_of(node: Node) -> Factors | None:
    """What a node multiplies, if it is a product with the transpose of a matrix."""
    bias: Any = None
    if node.target is _aten.linear.default:
        x, weight, *others = node.args
        return Factors(x, weight, others[0] if others else None)
    if node.target is _aten.mm.default:
        x, factor = node.args
    elif node.target is _aten.addmm.default and not node.kwargs:
        bias, x, factor = node.args
        if bias.meta["val"].dim() != 1:
            return None
    else:
        return None
    return Factors(x, factor.args[0], bias) if is_transpose(factor) else None


def product_of(program: ExportedProgram, node: Node) -> Product | None:
    """The product that a node computes, of which the weight is made from constants."""
    if node.target is _aten._weight_int4pack_mm.default:
        weight, x, bias = packed_weight_of(program, node), node.args[0], None
    else:
        factors = factors_of(node)
        if factors is None:
            return None
        x, bias, weight = factors.x, factors.bias, weight_of(program, factors.weight)
    return None if weight is None or not isinstance(x, Node) else (x, weight, bias)


def product_of_blocks(node: Node) -> tuple[Factors, GgufBlocks] | None:
    """The product that a node computes, if its weight is made from blocks of GGUF files."""
    factors = factors_of(node)
    blocks = None if factors is None else gguf_blocks_of(factors.weight)
    return None if factors is None or blocks is None else (factors, blocks)
