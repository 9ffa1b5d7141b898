"""Products of one row with weights of float8 read these, and no matrix that is made of them.

Inductor writes the weight as 16-bit floats and has a library multiply it: five bytes for each of
one. As a sum, the product is one kernel, which makes floats of what it reads.
"""

from __future__ import annotations

import math
from functools import partial

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from aoti_plugins.lowering.added_nodes import call
from aoti_plugins.lowering.small_weights.float_weights import float8_of_transpose
from aoti_plugins.lowering.small_weights.sources import name_of

_aten = torch.ops.aten
_PRODUCTS = ("aten::matmul", "aten::mm")
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def float8_rows(program: ExportedProgram) -> None:
    """Rewrite them, in place, in the outermost graph; expects ATen ops.

    Those with what torchao's ``Float8WeightOnlyConfig`` makes of a constant weight, whose scales
    are one for each row of it, or one for all.
    """
    for node in list(program.graph.nodes):
        if name_of(node) in _PRODUCTS and _is_one_row(node):
            factors = float8_of_transpose(program, node.args[1])
            if factors is not None:
                node.replace_all_uses_with(_as_sum(node, *factors))
                program.graph.erase_node(node)
    program.graph.eliminate_dead_code()


def _is_one_row(product: Node) -> bool:
    rows = math.prod(product.args[0].meta["val"].shape[:-1])
    return product.meta["val"].dtype in _FLOATS and isinstance(rows, int) and rows == 1


def _as_sum(node: Node, codes: Node, scale: Node) -> Node:
    add, value = partial(call, node), node.meta["val"]
    x = add(_aten._to_copy.default, node.args[0], dtype=torch.float32)
    x = add(_aten.view.default, x, [1, codes.meta["val"].size(1)])
    wide = add(_aten._to_copy.default, codes, dtype=torch.float32)
    found = add(_aten.sum.dim_IntList, add(_aten.mul.Tensor, wide, x), [1], True)
    found = add(_aten._to_copy.default, add(_aten.mul.Tensor, found, scale), dtype=value.dtype)
    return add(_aten.view.default, found, list(value.shape))
