"""What in a program is a product with a weight of 4 or 8 bits."""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from aoti_plugins.lowering.small_weights.sources import (
    packed_weight_of,
    transposed_weight_of,
    weight_of,
)
from aoti_plugins.lowering.small_weights.weight import SmallWeight

_aten = torch.ops.aten

Product = tuple[Node, SmallWeight, Node | None]
"""What is multiplied, the weight whose transpose it is multiplied with, and the bias."""


def product_of(program: ExportedProgram, node: Node) -> Product | None:
    """The product that a node computes, of which the weight is made from constants."""
    bias: Any = None
    if node.target is _aten.linear.default:
        x, weight = node.args[0], weight_of(program, node.args[1])
        bias = node.args[2] if len(node.args) > 2 else None
    elif node.target is _aten.mm.default:
        x, weight = node.args[0], transposed_weight_of(program, node.args[1])
    elif node.target is _aten._weight_int4pack_mm.default:
        x, weight = node.args[0], packed_weight_of(program, node)
    else:
        return None
    return None if weight is None or not isinstance(x, Node) else (x, weight, bias)
