"""Products take in the norm in front of them and what follows them.

One token of a language model is a row of kernels that each wait for the last one; what counts is
how many there are.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from aoti_plugins.cuda.gates import Gate
from aoti_plugins.cuda.passes.around_linears import (
    Norm,
    gated_of,
    may_be_one_row,
    norm_of_one_row,
    residual_of,
)
from aoti_plugins.cuda.small_weights.layout import ROWS
from aoti_plugins.lowering.added_nodes import call_instead, comes_from
from aoti_plugins.lowering.program_constants import add_constant, constant_of

MOST_TOGETHER = 3
"""Products that become one; ``row_linear`` has as many weights."""

_SPLIT = torch.ops.aten.split_with_sizes.default


@dataclass(frozen=True)
class Product(ABC):
    """An op to be: what it is made of, and in ``node`` what it replaces."""

    node: Node
    x: Node
    parts: tuple[Node, ...] = ()
    """What it replaces beside ``node``."""
    norm: Norm | None = None
    residual: Node | None = None
    gate: Gate = Gate.NONE

    @property
    def is_plain(self) -> bool:
        """Whether nothing stands behind it."""
        return self.gate == Gate.NONE and self.residual is None

    @abstractmethod
    def beside(self, program: ExportedProgram, others: Sequence[Product]) -> Product | None:
        """This product and others of the same rows as one, the columns of the others behind.

        ``None`` if they cannot be one. Nothing stands behind any of them.
        """

    @abstractmethod
    def call(self, x: Node, residual: Node | None) -> tuple[Any, tuple[Any, ...]]:
        """The op, and its arguments."""


def fuse(program: ExportedProgram, product_of: Callable[[Node], Product | None]) -> None:
    """Replace products and what stands around them, in place; expects ATen ops.

    Up to three products of the same rows behind which nothing stands become one as well.
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
    joined = _joined(program, products)
    for product in products.values():
        if product.node in joined:
            together, parts = joined[product.node]
            if parts:
                _emit_parts(program, together, parts, emitted)
        else:
            emitted[product.node] = _emit(product, emitted)
    program.graph.eliminate_dead_code()


def as_one_constant(program: ExportedProgram, nodes: Sequence[Node]) -> Node | None:
    """Constants, one behind the other along their first dim, as one; none of none."""
    if not nodes:
        return None
    values = [constant_of(program, node) for node in nodes]
    whole = torch.cat([value.detach() for value in values if value is not None])
    return add_constant(program, "_and_".join(node.name for node in nodes), whole)


def _with_norm(program: ExportedProgram, product: Product) -> Product:
    norm = norm_of_one_row(program, product.x)
    return product if norm is None else replace(product, x=norm.x, norm=norm)


def _gated(program: ExportedProgram, node: Node, products: dict[Node, Product]) -> Product | None:
    """The product of which a node is the gated result; takes it from ``products``."""
    found = gated_of(node)
    if found is None:
        return None
    nodes = [one for one in (found.first, found.second) if one is not None]
    parts = [products[one] for one in nodes if one in products and products[one].is_plain]
    if len(parts) < len(nodes) or len({(one.x, one.norm) for one in parts}) > 1:
        return None
    if node.meta["val"].shape[-1] % ROWS:
        return None
    first, *others = parts
    whole = first.beside(program, others) if others else first
    if whole is None:
        return None
    for one in nodes:
        del products[one]
    return replace(whole, node=node, gate=found.gate, parts=tuple(nodes))


def _sum(node: Node, products: dict[Node, Product]) -> Product | None:
    """The product to which a node adds a residual; takes it from ``products``."""
    for operand in node.all_input_nodes:
        product = products.get(operand)
        residual = None if product is None else residual_of(node, operand)
        if product is None or residual is None or product.residual is not None:
            continue
        if may_be_one_row(product.x):
            del products[operand]
            parts = (*product.parts, product.node)
            return replace(product, node=node, residual=residual, parts=parts)
    return None


_Joined = tuple[Product, list[Node]]
"""A product, and the nodes whose columns it has one behind the other; all at the first of them."""


def _joined(program: ExportedProgram, products: dict[Node, Product]) -> dict[Node, _Joined]:
    """Products of the same rows, behind which nothing stands, as one: query, key and value."""
    same: dict[tuple[Node, Norm | None], list[Product]] = {}
    for product in products.values():
        if product.is_plain:
            same.setdefault((product.x, product.norm), []).append(product)
    found: dict[Node, _Joined] = {}
    for group in same.values():
        for start in range(0, len(group), MOST_TOGETHER):
            first, *others = group[start : start + MOST_TOGETHER]
            together = first.beside(program, others) if others else None
            if together is not None:
                nodes = [first.node, *(one.node for one in others)]
                found |= {node: (together, nodes if node is first.node else []) for node in nodes}
    return found


def _emit_parts(
    program: ExportedProgram, product: Product, parts: list[Node], emitted: dict[Node, Node]
) -> None:
    """Replace the nodes whose columns a product has by views of its result."""
    sizes = [node.meta["val"].shape[-1] for node in parts]
    op, args = product.call(emitted.get(product.x, product.x), None)
    graph, value = program.graph, parts[0].meta["val"]
    with graph.inserting_before(parts[0]):
        whole = graph.call_function(op, args)
        whole.meta.update(parts[0].meta)
        comes_from(whole, *parts)
        whole.meta["val"] = value.new_empty((*value.shape[:-1], sum(sizes)))
        split = graph.call_function(_SPLIT, (whole, sizes, -1))
        split.meta["val"] = _SPLIT(whole.meta["val"], sizes, -1)
        for i, node in enumerate(parts):
            emitted[node] = graph.call_function(operator.getitem, (split, i))
            emitted[node].meta.update(node.meta)
            emitted[node].meta["val"] = split.meta["val"][i]
    for node in parts:
        node.replace_all_uses_with(emitted[node])
        graph.erase_node(node)


def _emit(product: Product, emitted: dict[Node, Node]) -> Node:
    """Replace a product's node; what it reads may have been replaced before."""
    residual, sources = product.residual, (*product.parts, product.node)
    op, args = product.call(
        emitted.get(product.x, product.x),
        None if residual is None else emitted.get(residual, residual),
    )
    node = call_instead(product.node, op, *args)
    comes_from(node, *sources)
    return node
