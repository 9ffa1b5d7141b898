"""An embedding that is also the weight of a product reads the tiles that this product reads."""

from __future__ import annotations

import torch
from torch.export import ExportedProgram
from torch.fx import Node

import aoti_plugins.cuda.fused_linear
import aoti_plugins.cuda.small_weights.rows_of_tiles  # noqa: F401  they define ops
from aoti_plugins.cuda.passes.small_weights import prefix_of
from aoti_plugins.cuda.small_weights.layout import DEPTH
from aoti_plugins.lowering.added_nodes import call_instead
from aoti_plugins.lowering.small_weights.constants import source_name
from aoti_plugins.lowering.small_weights.rows import rows_of
from aoti_plugins.lowering.small_weights.sources import is_dequantised

_ops = torch.ops.aoti_plugins


def rows_of_tiles(program: ExportedProgram) -> None:
    """Let rows come from the weights of ``aoti_plugins::fused_linear``, in place.

    What the pass ``gathered_rows`` made, where the pass ``small_weights`` has laid the same weight
    out, in the outermost graph. So a program holds a head that is the embedding once.
    """
    products = {
        node.args[1].name: node
        for node in program.graph.nodes
        if node.target is _ops.fused_linear.default
    }
    for node in list(program.graph.nodes) if products else ():
        rows = rows_of(node.args[0]) if is_dequantised(node) else None
        product = None if rows is None else _product(products, rows.table)
        if rows is None or product is None:
            continue
        _, weight, scale, zero, _, _, _, *kinds, _, _ = product.args
        value = node.meta["val"]
        args = (rows.numbers, weight, scale, zero, *kinds, value.size(-1), value.dtype)
        call_instead(node, _ops.rows_of_tiles.default, *args, rows.may_be_negative)
    program.graph.eliminate_dead_code()


def _product(products: dict[str, Node], table: Node) -> Node | None:
    """The product whose weight has been made of the same constant as a table."""
    names = [f"{prefix_of(source_name(table), bits)}_codes" for bits in DEPTH]
    return next((products[name] for name in names if name in products), None)
