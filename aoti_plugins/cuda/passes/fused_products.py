"""Products take in the norm in front of them and what follows them.

One token of a language model is a row of kernels that each wait for the last one; what counts is
how many there are.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from torch.export import ExportedProgram
from torch.fx import Node

from aoti_plugins.cuda.gates import Gate
from aoti_plugins.cuda.passes.around_linears import Norm, gated_of, norm_of, residual_of
from aoti_plugins.cuda.small_weights.layout import ROWS


@dataclass(frozen=True)
class Product(ABC):
    """An op to be: what it is made of, and in ``node`` what it replaces."""

    node: Node
    x: Node
    norm: Norm | None = None
    residual: Node | None = None
    gate: Gate = Gate.NONE

    @abstractmethod
    def with_second(self, program: ExportedProgram, second: Product) -> Product | None:
        """Both products as one, the columns of ``second`` behind; ``None`` if they cannot be."""

    @abstractmethod
    def call(self, x: Node, residual: Node | None) -> tuple[Any, tuple[Any, ...]]:
        """The op, and its arguments."""


def fuse(program: ExportedProgram, product_of: Callable[[Node], Product | None]) -> None:
    """Replace products and what stands around them, in place; expects ATen ops.

    Norms and residuals of one row, or of a dynamic number of rows. Gates of any number of rows: a
    method for many rows and one for a single row then hold the same weights, once.

    Args:
        program: of which the outermost graph counts.
        product_of: the product that a node computes, if it is one to replace.
    """
    products: dict[Node, Product] = {}
    for node in list(program.graph.nodes):
        plain = product_of(node)
        found = (
            _with_norm(program, plain)
            if plain is not None
            else _gated(program, node, products) or _sum(node, products)
        )
        if found is not None:
            products[node] = found
    emitted: dict[Node, Node] = {}
    for product in products.values():
        emitted[product.node] = _emit(program, product, emitted)
    program.graph.eliminate_dead_code()
    program.graph_module.recompile()


def _with_norm(program: ExportedProgram, product: Product) -> Product:
    norm = norm_of(program, product.x) if _may_be_one_row(product.x) else None
    return product if norm is None else replace(product, x=norm.x, norm=norm)


def _may_be_one_row(x: Node) -> bool:
    rows = math.prod(x.meta["val"].shape[:-1])  # numel() of a size would fix a dynamic one
    return not isinstance(rows, int) or rows == 1


def _gated(program: ExportedProgram, node: Node, products: dict[Node, Product]) -> Product | None:
    """The product of which a node is the gated result; takes it from ``products``."""
    found = gated_of(node)
    if found is None:
        return None
    first = products.get(found.first)
    if first is None or first.gate or first.residual is not None:
        return None
    if found.second is None:
        if node.meta["val"].shape[-1] % ROWS:
            return None
        del products[found.first]
        return replace(first, node=node, gate=found.gate)
    second = products.get(found.second)
    if second is None or second.gate or second.residual is not None:
        return None
    same = (first.x, first.norm) == (second.x, second.norm)
    both = first.with_second(program, second) if same else None
    if both is None:
        return None
    del products[found.first], products[found.second]
    return replace(both, node=node, gate=found.gate)


def _sum(node: Node, products: dict[Node, Product]) -> Product | None:
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


def _emit(program: ExportedProgram, product: Product, emitted: dict[Node, Node]) -> Node:
    """Replace a product's node; what it reads may have been replaced before."""
    residual = product.residual
    op, args = product.call(
        emitted.get(product.x, product.x),
        None if residual is None else emitted.get(residual, residual),
    )
    with program.graph.inserting_before(product.node):
        fused = program.graph.call_function(op, args)
    fused.meta.update(product.node.meta)
    product.node.replace_all_uses_with(fused)
    program.graph.erase_node(product.node)
    return fused
