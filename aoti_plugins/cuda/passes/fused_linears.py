"""Products of one row take in the norm in front of them and what follows them.

One token of a language model is a row of kernels that each wait for the last one; what counts is
how many there are. The rows may also be dynamic: the runtime chooses when it sees their number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from aoti_plugins.cuda.fused_linear import Gate
from aoti_plugins.cuda.passes.around_linears import Norm, gated_of, norm_of, residual_of
from aoti_plugins.cuda.small_weights.layout import ROWS
from aoti_plugins.lowering.program_constants import add_constant, constant_of


@dataclass(frozen=True)
class _Product:
    """An op to be: what it is made of, and in ``node`` what it replaces."""

    node: Node
    x: Node
    weight: Node
    scale: Node
    zero: Node | None
    bias: Node | None
    bits: int
    group_size: int
    zero_kind: int
    norm: Norm | None = None
    residual: Node | None = None
    gate: Gate = Gate.NONE

    @property
    def constants(self) -> tuple[Node | None, ...]:
        """What has a row for each column of the result."""
        return self.weight, self.scale, self.zero, self.bias


def fused_linears(program: ExportedProgram) -> None:
    """Extend ``aoti_plugins::fused_linear``, in place; expects ATen ops around them.

    Those of one row, or of a dynamic number of rows, which the pass ``small_weights`` put in the
    outermost graph. Gates of any number of rows: a method for many rows and one for a single row
    then hold the same weights, once.
    """
    products: dict[Node, _Product] = {}
    for node in list(program.graph.nodes):
        found = _product(program, node) or _gated(program, node, products) or _sum(node, products)
        if found is not None:
            products[node] = found
    emitted: dict[Node, Node] = {}
    for product in products.values():
        emitted[product.node] = _emit(program, product, emitted)
    program.graph.eliminate_dead_code()
    program.graph_module.recompile()


def _product(program: ExportedProgram, node: Node) -> _Product | None:
    if node.target is not torch.ops.aoti_plugins.fused_linear.default:
        return None
    x, weight, scale, zero, bias, _, _, bits, group_size, zero_kind, _, _ = node.args
    found = _Product(node, x, weight, scale, zero, bias, bits, group_size, zero_kind)
    norm = norm_of(program, x) if _may_be_one_row(x) else None
    return found if norm is None else replace(found, x=norm.x, norm=norm)


def _may_be_one_row(x: Node) -> bool:
    rows = math.prod(x.meta["val"].shape[:-1])  # numel() of a size would fix a dynamic one
    return not isinstance(rows, int) or rows == 1


def _gated(program: ExportedProgram, node: Node, products: dict[Node, _Product]) -> _Product | None:
    """The product of which a node is the gated result; takes it from ``products``."""
    found = gated_of(node)
    if found is None:
        return None
    if found.second is None:
        product = products.get(found.first)
        columns = node.meta["val"].shape[-1]
        if product is None or product.gate or columns % ROWS or product.residual is not None:
            return None
        del products[found.first]
        return replace(product, node=node, gate=found.gate)
    first, second = products.get(found.first), products.get(found.second)
    if first is None or second is None or not _go_together(first, second):
        return None
    del products[found.first], products[found.second]
    weight, scale, zero, bias = (
        _joined(program, one, other)
        for one, other in zip(first.constants, second.constants, strict=True)
    )
    assert weight is not None
    assert scale is not None
    return replace(
        first, node=node, gate=found.gate, weight=weight, scale=scale, zero=zero, bias=bias
    )


def _go_together(first: _Product, second: _Product) -> bool:
    """Whether two products are one with the rows of both weights."""
    plain = all(one.gate == Gate.NONE and one.residual is None for one in (first, second))
    same = ("x", "norm", "bits", "group_size", "zero_kind")
    kinds = [[_kind(one) for one in product.constants] for product in (first, second)]
    return (
        plain
        and all(getattr(first, name) == getattr(second, name) for name in same)
        and kinds[0] == kinds[1]
    )


def _kind(node: Node | None) -> tuple[object, ...] | None:
    return None if node is None else (node.meta["val"].shape, node.meta["val"].dtype)


def _joined(program: ExportedProgram, one: Node | None, other: Node | None) -> Node | None:
    if one is None or other is None:
        return None
    first, second = constant_of(program, one), constant_of(program, other)
    assert first is not None
    assert second is not None
    joined = torch.cat((first.detach(), second.detach()))
    return add_constant(program, f"{one.name}_and_{other.name}", joined)


def _sum(node: Node, products: dict[Node, _Product]) -> _Product | None:
    """The product to which a node adds a residual; takes it from ``products``."""
    for operand in node.all_input_nodes:
        product = products.get(operand)
        residual = None if product is None else residual_of(node, operand)
        if product is None or residual is None or product.residual is not None:
            continue
        if _may_be_one_row(product.x):
            del products[operand]
            return replace(product, node=node, residual=residual)
    return None


def _emit(program: ExportedProgram, product: _Product, emitted: dict[Node, Node]) -> Node:
    """Replace a product's node; what it reads may have been replaced before."""
    norm, residual = product.norm, product.residual
    args = (
        emitted.get(product.x, product.x),
        *product.constants,
        None if norm is None else norm.factors,
        None if residual is None else emitted.get(residual, residual),
        product.bits,
        product.group_size,
        product.zero_kind,
        0.0 if norm is None else norm.epsilon,
        int(product.gate),
    )
    with program.graph.inserting_before(product.node):
        fused = program.graph.call_function(torch.ops.aoti_plugins.fused_linear.default, args)
    fused.meta.update(product.node.meta)
    product.node.replace_all_uses_with(fused)
    program.graph.erase_node(product.node)
    return fused
