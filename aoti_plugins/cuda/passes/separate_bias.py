"""Take what is added out of matrix products of a few rows.

Inductor keeps product and sum together in ``addmm`` unless everything that reads it is pointwise.
For a few rows there is a kernel of our own (``lowering/inductor/few_rows.py``), for ``mm``; the sum
becomes a part of it, or of whatever reads it.
"""

from __future__ import annotations

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from aoti_plugins.lowering.inductor.few_rows import has_few_rows

_aten = torch.ops.aten


def separate_bias(program: ExportedProgram) -> None:
    """Replace ``linear`` and ``addmm`` in place; expects ATen ops."""
    for module in program.graph_module.modules():
        if isinstance(module, GraphModule):
            for node in list(module.graph.nodes):
                product, bias = _parts(node)
                if bias is not None:
                    _replace(node, product, bias)
            module.recompile()


def _parts(node: Node) -> tuple[tuple[torch._ops.OpOverload, Node, Node], Node | None]:
    """The op without its sum and its factors, and the summand; ``None`` to leave it alone."""
    if node.target is _aten.linear.default and len(node.args) == 3:
        x, weight, bias = node.args
        product = (_aten.linear.default, x, weight)
    elif node.target is _aten.addmm.default and not node.kwargs:
        bias, x, weight = node.args
        product = (_aten.mm.default, x, weight)
    else:
        return (node.target, node, node), None
    value = x.meta["val"]
    return product, bias if has_few_rows(value.shape) and value.is_floating_point() else None


def _replace(node: Node, product: tuple[torch._ops.OpOverload, Node, Node], bias: Node) -> None:
    op, *factors = product
    with node.graph.inserting_before(node):
        alone = node.graph.call_function(op, tuple(factors))
        total = node.graph.call_function(_aten.add.Tensor, (alone, bias))
    alone.meta["val"] = node.meta["val"]
    total.meta.update(node.meta)
    node.replace_all_uses_with(total)
    node.graph.erase_node(node)
