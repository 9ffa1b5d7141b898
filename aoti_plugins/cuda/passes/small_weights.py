"""Products with weights of 4 and 8 bits become one op, the weights are laid out for it."""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from aoti_plugins.cuda.fused_linear import Gate
from aoti_plugins.cuda.small_weights.layout import is_supported, pack_codes, pack_groups
from aoti_plugins.cuda.small_weights.names import codes_name, prefix_of
from aoti_plugins.lowering.program_constants import add_constant
from aoti_plugins.lowering.small_weights.sources import (
    packed_weight_of,
    transposed_weight_of,
    weight_of,
)
from aoti_plugins.lowering.small_weights.weight import SmallWeight

_aten = torch.ops.aten
_DTYPES = (torch.float16, torch.bfloat16)


def small_weights(program: ExportedProgram) -> None:
    """Replace products by ``aoti_plugins::fused_linear``, in place; expects ATen ops.

    Those whose weight is a constant of 4 or 8 bits and whose other factor is float16 or bfloat16,
    in the outermost graph. What became of the weight before, if anything else needs it, stays.
    """
    graph = program.graph
    for node in list(graph.nodes):
        found = _product(program, node)
        if found is not None:
            _replace(program, node, *found)
    graph.eliminate_dead_code()
    program.graph_module.recompile()


def _product(program: ExportedProgram, node: Node) -> tuple[Node, SmallWeight, Node | None] | None:
    """What is multiplied, the weight and the bias of a product, if the kernels do it."""
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
    if weight is None or not is_supported(weight) or not isinstance(x, Node):
        return None
    dtype = x.meta["val"].dtype
    if dtype not in _DTYPES or node.meta["val"].dtype != dtype:
        return None
    return x, weight, bias


def _replace(
    program: ExportedProgram, node: Node, x: Node, weight: SmallWeight, bias: Node | None
) -> None:
    dtype = x.meta["val"].dtype
    scale_dtype = _scale_dtype(weight, dtype)
    name, bits = prefix_of(weight.name, weight.bits), weight.bits
    codes = add_constant(program, codes_name(weight.name, bits), pack_codes(weight.codes, bits))
    scale = add_constant(program, f"{name}_scale", pack_groups(weight.scale.to(scale_dtype)))
    zero = None
    if weight.zero is not None:
        zero = add_constant(program, f"{name}_zero", pack_groups(weight.zero.to(scale_dtype)))
    kinds = (weight.bits, weight.group_size, weight.zero_kind)
    with node.graph.inserting_before(node):
        product = node.graph.call_function(
            torch.ops.aoti_plugins.fused_linear.default,
            (x, codes, scale, zero, bias, None, None, *kinds, 0.0, int(Gate.NONE)),
        )
    product.meta.update(node.meta)
    node.replace_all_uses_with(product)
    node.graph.erase_node(node)


def _scale_dtype(weight: SmallWeight, dtype: torch.dtype) -> torch.dtype:
    """The dtype of the product, if it holds all scales and zeros as they are; else float32."""
    values = [weight.scale] if weight.zero is None else [weight.scale, weight.zero]
    is_exact = all(torch.equal(one.to(dtype).double(), one.double()) for one in values)
    return dtype if is_exact else torch.float32
