"""Products of one row with large weights of 16 bits, and routers', go to a kernel of the runtime.

With the norm in front of them and what follows them, as ``fused_linears`` does for small weights.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

import aoti_plugins.cuda.chosen_experts
import aoti_plugins.cuda.row_linear  # noqa: F401  these define ops
from aoti_plugins.cuda.passes.around_linears import linear_of_halves
from aoti_plugins.cuda.passes.fused_products import MOST_TOGETHER, Product, as_one_constant, fuse
from aoti_plugins.lowering.program_constants import constant_of

# Smaller weights take no longer to read than a kernel to begin; Inductor may make one kernel of
# such products and others.
_LEAST_NUMEL = 1 << 19

# The kernel reads runs of so many elements.
_MULTIPLE = 32


@dataclass(frozen=True, kw_only=True)
class _RowProduct(Product):
    weights: tuple[Node, ...]
    bias: Node | None

    def beside(self, program: ExportedProgram, others: Sequence[Product]) -> Product | None:
        products = [self, *(one for one in others if isinstance(one, _RowProduct))]
        weights = tuple(itertools.chain(*(one.weights for one in products)))
        biases = [one.bias for one in products if isinstance(one.bias, Node)]
        if len(products) <= len(others) or len(weights) > MOST_TOGETHER:
            return None
        if len(biases) not in (0, len(products)):
            return None
        return replace(self, weights=weights, bias=as_one_constant(program, biases))

    def call(self, x: Node, residual: Node | None) -> tuple[Any, tuple[Any, ...]]:
        norm = self.norm
        return torch.ops.aoti_plugins.row_linear.default, (
            x,
            *self.weights,
            *(None for _ in range(MOST_TOGETHER - len(self.weights))),
            self.bias,
            None if norm is None else norm.factors,
            residual,
            0.0 if norm is None else norm.epsilon,
            int(self.gate),
        )


def row_linears(program: ExportedProgram) -> None:
    """Replace products by ``aoti_plugins::row_linear``, in place; expects ATen ops.

    Those of one row, of float16 or bfloat16, whose weights are constants, in the outermost graph,
    if the weights that the row is multiplied with are large together, or if a router waits for it.
    """
    found = {node: product for node in program.graph.nodes if (product := _product(program, node))}
    numels = Counter[Node]()
    for product in found.values():
        numels[product.x] += product.weights[0].meta["val"].numel()
    taken = {
        node: one
        for node, one in found.items()
        if numels[one.x] >= _LEAST_NUMEL or _is_of_router(node)
    }
    fuse(program, taken.get)


def _is_of_router(node: Node) -> bool:
    chosen = torch.ops.aoti_plugins.chosen_experts.default
    return any(user.target is chosen for user in node.users)


def _product(program: ExportedProgram, node: Node) -> _RowProduct | None:
    linear = linear_of_halves(program, node)
    if linear is None or linear.value.size(1) % _MULTIPLE:
        return None
    bias = linear.bias
    if bias is not None and not _is_bias(constant_of(program, bias), linear.value.size(0)):
        return None
    rows = math.prod(linear.x.meta["val"].shape[:-1])
    if not isinstance(rows, int) or rows != 1:
        return None
    return _RowProduct(node=node, x=linear.x, weights=(linear.weight,), bias=bias)


def _is_bias(value: torch.Tensor | None, columns: int) -> bool:
    return value is not None and value.shape == (columns,) and value.is_contiguous()
