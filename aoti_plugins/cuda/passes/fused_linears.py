"""Products with small weights take in the norm in front of them and what follows them.

The rows may also be dynamic: the runtime chooses when it sees their number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

import aoti_plugins.cuda.fused_linear  # noqa: F401  it defines the op
from aoti_plugins.cuda.passes.fused_products import Product, as_one_constant, fuse
from aoti_plugins.lowering.program_constants import constant_of


@dataclass(frozen=True, kw_only=True)
class _SmallWeightProduct(Product):
    constants: tuple[Node | None, ...]
    """Weight, scale, zero and bias: what has a row for each column of the result."""
    kinds: tuple[int, ...]
    """Bits, size of groups, and what a zero is."""

    def beside(self, program: ExportedProgram, others: Sequence[Product]) -> Product | None:
        products = [self, *(one for one in others if isinstance(one, _SmallWeightProduct))]
        kinds = {(one.kinds, *map(_kind, one.constants)) for one in products}
        if len(kinds) > 1 or len(products) <= len(others):
            return None
        constants = [one for product in products for one in product.constants if one is not None]
        if any(constant_of(program, one) is None for one in constants):
            return None  # a bias may be computed
        joined = (
            as_one_constant(program, [one for one in nodes if one is not None])
            for nodes in zip(*(one.constants for one in products), strict=True)
        )
        return replace(self, constants=tuple(joined))

    def call(self, x: Node, residual: Node | None) -> tuple[Any, tuple[Any, ...]]:
        norm = self.norm
        return torch.ops.aoti_plugins.fused_linear.default, (
            x,
            *self.constants,
            None if norm is None else norm.factors,
            residual,
            *self.kinds,
            0.0 if norm is None else norm.epsilon,
            int(self.gate),
        )


def fused_linears(program: ExportedProgram) -> None:
    """Extend ``aoti_plugins::fused_linear``, in place; expects ATen ops around them.

    Those which the pass ``small_weights`` put in the outermost graph.
    """
    fuse(program, _product)


def _product(node: Node) -> Product | None:
    if node.target is not torch.ops.aoti_plugins.fused_linear.default:
        return None
    x, weight, scale, zero, bias, _, _, *kinds, _, _ = node.args
    constants = (weight, scale, zero, bias)
    return _SmallWeightProduct(node=node, x=x, constants=constants, kinds=tuple(kinds))


def _kind(node: Node | None) -> tuple[object, ...] | None:
    """What constants have in common that can be one, the first dims of both behind each other."""
    return None if node is None else (node.meta["val"].shape[1:], node.meta["val"].dtype)
