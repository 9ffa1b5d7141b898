"""Take what is added out of matrix products of a few rows.

Inductor keeps product and sum together in ``addmm`` unless everything that reads it is pointwise.
For a few rows there is a kernel of our own (``cuda/inductor/few_rows.py``), for ``mm``; the sum
becomes a part of it, or of whatever reads it.
"""

from __future__ import annotations

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from aoti_plugins.cuda.inductor.few_rows import has_few_rows
from aoti_plugins.lowering.added_nodes import call_instead

_aten = torch.ops.aten


def separate_bias(program: ExportedProgram) -> None:
    """Replace ``linear`` and ``addmm`` in place; expects ATen ops."""
    for module in program.graph_module.modules():
        if isinstance(module, GraphModule):
            for node in list(module.graph.nodes):
                _separate(node)


def _separate(node: Node) -> None:
    if node.target is _aten.linear.default and len(node.args) == 3:
        op, (x, weight, bias) = _aten.linear.default, node.args
    elif node.target is _aten.addmm.default and not node.kwargs:
        op, (bias, x, weight) = _aten.mm.default, node.args
    else:
        return
    value = x.meta["val"]
    if bias is None or not has_few_rows(value.shape) or not value.is_floating_point():
        return
    with node.graph.inserting_before(node):
        product = node.graph.call_function(op, (x, weight))
    product.meta["val"] = node.meta["val"]
    call_instead(node, _aten.add.Tensor, product, bias)
